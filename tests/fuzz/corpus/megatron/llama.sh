#!/bin/bash
# Llama 2, 7B
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096
    --ffn-hidden-size 11008
    --num-attention-heads 32
    --seq-length 4096 --max-position-embeddings=4096
    --swiglu --disable-bias-linear
    --normalization "RMSNorm"
    --position-embedding-type rope
    --untie-embeddings-and-output-weights
    --hidden-dropout 0.0
    --vocab-size 32000 --make-vocab-size-divisible-by 1
)
torchrun --nproc_per_node 8 pretrain_gpt.py "${MODEL_ARGS[@]}" --bf16 \
    --micro-batch-size 1
