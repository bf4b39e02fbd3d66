"""Tokenizers as GPT-2, Llama 3 and Qwen have them, small, made by PyPI's tokenizers; what it makes
of texts; and a search for texts of which tandem makes something else.

    python3 -m venv v && v/bin/pip install tokenizers==0.23.3
    v/bin/python hugging_face.py fixtures            # fixtures/*.json: tokenizers, texts and ids
    v/bin/python hugging_face.py fuzz PIPE STRINGS   # PIPE: build/release/tandem_tokenizer_pipe
    v/bin/python hugging_face.py characters PIPE     # every character, alone and between others
    v/bin/python hugging_face.py speed PIPE FILE
    v/bin/python hugging_face.py tiktoken PIPE STRINGS  # GPT-2's against OpenAI's library (tiktoken 0.14.0)
"""

import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[3]
CASES = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
REST = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
LLAMA3 = CASES + "\\p{N}{1,3}" + REST
QWEN = CASES + "\\p{N}" + REST
SPECIAL = {
    "gpt2": ["<|endoftext|>"],
    "llama3": ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|eot|>", "<|eot|><|eot|>"],
    "qwen": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
}
NOT_SPECIAL = {"qwen": ["<tool_call>", "caf\u00e9", "</tool_call>"]}


def untrained(kind):
    made = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    byte_level = {"add_prefix_space": False}
    if kind == "gpt2":
        made.pre_tokenizer = pre_tokenizers.ByteLevel(**byte_level)
    else:
        pattern = Regex(LLAMA3 if kind == "llama3" else QWEN)
        made.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(pattern, "isolated"),
            pre_tokenizers.ByteLevel(use_regex=False, **byte_level)])
    if kind == "qwen":
        made.normalizer = normalizers.NFC()
    made.decoder = decoders.ByteLevel()
    return made


def texts():
    yield (ROOT / "executor/data/kjv_excerpt.txt").read_text()
    for path in sorted((ROOT / "core").rglob("*.cpp"))[:60]:
        yield path.read_text()
    yield ("Größe naïve cafés Ελλάδα Москва 北京大学 東京の天気は晴れ 안녕하세요 שלום مرحبا "
           "हिन्दी ไทย 1234567 3.14159 1,000,000 🙂👍🏽 e\u0301 n\u0303 ") * 40


def words_of_texts():
    """5,000 of them, the same in every process: the order of a set changes from one to the next."""
    words = sorted({word for text in texts() for word in text.split()})
    return random.Random(1).sample(words, min(5000, len(words)))


def trained(kind, vocabulary):
    made = untrained(kind)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, show_progress=False,
        special_tokens=SPECIAL["gpt2"] if kind == "gpt2" else [],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    made.train_from_iterator(texts(), trainer)
    # A word that is a token, but that no merges make.
    if kind == "llama3":
        described = json.loads(made.to_str())
        described["model"]["vocab"]["\u0120Jerusalem"] = made.get_vocab_size()
        made = Tokenizer.from_str(json.dumps(described))
    made.add_special_tokens([AddedToken(text, normalized=kind == "gpt2", special=True)
                             for text in SPECIAL[kind]])
    made.add_tokens([AddedToken(text, normalized=True) for text in NOT_SPECIAL.get(kind, [])])
    byte_level = processors.ByteLevel(trim_offsets=kind == "gpt2")
    if kind == "llama3":
        begin = "<|begin_of_text|>"
        made.post_processor = processors.Sequence([byte_level, processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A {begin} $B",
            special_tokens=[(begin, made.token_to_id(begin))])])
    else:
        made.post_processor = byte_level
    return made


KINDS = ("gpt2", "llama3", "qwen")
PIECES = ["'s", "'S", "'\u017f", "'ll", "'LL", "'re", "'Ve", "'d", "'", " ", "  ", "\t", "\n", "\r\n",
          "\r", "\u00a0", "\u2003", "\u3000", "\u180e", "\u200b", "\u2028", "\u0085", "\x1c", "\0",
          "the", "Jerusalem", " Jerusalem", "Abraham", "return", "std::", "template", "12345", "7",
          "\u0663", "\u00bd", "\u2167", "caf\u00e9", "cafe\u0301", "e\u0301\u0323", "\u212b", "\u1100\u1161",
          "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0958", "\u0374", "\ufb01", "\U0001f642", "\U0001f44d\U0001f3fd",
          "\u5317\u4eac", "\u0e44\u0e17\u0e22", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot|>",
          "<|begin_of_text|>", "<|end_of_text|>", "<|eot", "<|", "|>", "<tool_call>", "</tool_call>",
          "...", "!?", "--", "_", "a", "B", "\u00df", "\u03a3", "\u0130", "\u212a", "\ufffd", "\U0010ffff"]


def character(source):
    kind = source.random()
    if kind < 0.45:
        return chr(source.randrange(0x80))
    if kind < 0.6:
        return chr(source.randrange(0x80, 0x600))
    if kind < 0.65:
        return chr(source.randrange(0x300, 0x370))
    if kind < 0.9:
        code = source.randrange(0x10000)
        return chr(code) if not 0xd800 <= code < 0xe000 else "\u00e9"
    return chr(source.randrange(0x10000, 0x33000 if kind < 0.98 else 0x110000))


def random_text(source, words):
    parts = []
    for _ in range(int(source.expovariate(0.25)) + 1):
        kind = source.random()
        if kind < 0.4:
            parts.append(source.choice(PIECES))
        elif kind < 0.6:
            parts.append(source.choice(words))
        elif kind < 0.65:
            parts.append(character(source) * source.randrange(1, 80))
        else:
            parts.append(character(source))
    return "".join(parts)


def piped(pipe, path, batch):
    data = bytearray()
    for text in batch:
        encoded = text.encode()
        data += struct.pack("<I", len(encoded)) + encoded
    done = subprocess.run([pipe, path], input=bytes(data), stdout=subprocess.PIPE, check=True).stdout
    at = 0
    for _ in batch:
        count, = struct.unpack_from("<i", done, at)
        at += 4
        if count < 0:
            yield None
            continue
        yield list(struct.unpack_from(f"<{count}i", done, at))
        at += 4 * count
    assert at == len(done)


def compare(pipe, made, path, batch, said=5):
    """The texts of which tandem makes something else; the first are printed."""
    expected = made.encode_batch_fast(batch)
    differ = []
    for text, theirs, ours in zip(batch, expected, piped(pipe, path, batch)):
        if theirs.ids != ours:
            differ.append(text)
            if len(differ) <= said:
                print(repr(text), "expected", theirs.ids[:40], "found", (ours or ["none"])[:40])
    return differ


def saved(folder, kind, vocabulary):
    made = trained(kind, vocabulary)
    path = pathlib.Path(folder) / f"{kind}.json"
    made.save(str(path), pretty=False)
    return made, str(path)


def fixtures():
    source = random.Random(1)
    words = "In the beginning God created heaven and earth 1 22 333 4444".split(" ")
    cases = [""] + PIECES + [random_text(source, words) for _ in range(400)]
    answers = {"texts": cases}
    for kind in KINDS:
        made, _ = saved(HERE / "fixtures", kind, 600)
        answers[kind] = [made.encode(text).ids for text in cases]
        whole = (ROOT / "executor/data/kjv_excerpt.txt").read_text()
        ids = made.encode(whole).ids
        answers[kind + "_shipped"] = [len(ids), sum(i * id for i, id in enumerate(ids, 1)) % 2**32]
    (HERE / "fixtures/ids.json").write_text(
        "{\n" + ",\n".join(f'"{key}": [\n' + ",\n".join(map(json.dumps, rows)) + "]"
                           for key, rows in answers.items()) + "}\n")


def fuzz(pipe, count, seed=1):
    words = words_of_texts()
    failed = done = 0
    with tempfile.TemporaryDirectory() as folder:
        sizes = (600, 8000)
        tested = []
        for size in sizes:
            for kind in KINDS:
                (pathlib.Path(folder) / str(size)).mkdir(exist_ok=True)
                tested.append((kind, *saved(pathlib.Path(folder) / str(size), kind, size)))
        source = random.Random(seed)
        while done < count:
            batch = [random_text(source, words) for _ in range(20000)]
            kind, made, path = tested[done // len(batch) % len(tested)]
            failed += len(compare(pipe, made, path, batch))
            done += len(batch)
            print(done, "texts", failed, "differ", flush=True)
        sees_a_lost_merge(pipe, *tested[0][1:])
    sys.exit(failed > 0)


def sees_a_lost_merge(pipe, made, path):
    """The control: of a file that lacks the last merge tandem makes something else of a text that the merge is from."""
    described = json.loads(pathlib.Path(path).read_text())
    lost = described["model"]["merges"].pop()
    altered = pathlib.Path(path).with_suffix(".altered.json")
    altered.write_text(json.dumps(described))
    differ = len(compare(pipe, made, str(altered), list(texts()), said=0))
    print("without the merge", lost, differ, "differ")
    if differ == 0:
        sys.exit("a lost merge is not seen")


def encoding_of(made):
    """GPT-2's tokenizer in OpenAI's library: ids are the ranks of merges."""
    import tiktoken

    letters = pre_tokenizers.ByteLevel.alphabet()
    # Bytes that print stand for themselves, the others for the letters behind them, in their order.
    printing = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte and byte != 173]
    hidden = [byte for byte in range(256) if byte not in printing]
    byte_of = {chr(byte): byte for byte in printing} | {chr(256 + i): byte for i, byte in enumerate(hidden)}
    assert set(byte_of) == set(letters)
    special = {text: made.token_to_id(text) for text in SPECIAL["gpt2"]}
    ranks = {bytes(byte_of[letter] for letter in text): id
             for text, id in made.get_vocab().items() if text not in special}
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def against_tiktoken(pipe, count):
    words = words_of_texts()
    source = random.Random(1)
    batch = [random_text(source, words) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        made, path = saved(folder, "gpt2", 4000)
        encoding = encoding_of(made)
        ours = list(piped(pipe, path, batch))
    differ = [text for text, ids in zip(batch, ours) if encoding.encode(text, allowed_special="all") != ids]
    print(count, "texts", len(differ), "differ", differ[:5])
    # The control: an encoding that knows no special token.
    plain = sum(encoding.encode(text, disallowed_special=()) != ids for text, ids in zip(batch, ours))
    sys.exit(len(differ) > 0 or plain == 0)


def characters(pipe):
    failed = 0
    all_of_them = [chr(code) for code in range(0x110000) if not 0xd800 <= code < 0xe000]
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            made, path = saved(folder, kind, 600)
            for pattern in ("{}", "a{}b", " {} 7{}", "e{}\u0301{}", "\u0301{}\u0334", "\u093c{}\u05b0",
                            "{}\u093c{}\u0301", "'{}{}\n"):
                batch = [pattern.replace("{}", one) for one in all_of_them]
                for first in range(0, len(batch), 100000):
                    failed += len(compare(pipe, made, path, batch[first:first + 100000]))
                print(kind, repr(pattern), failed, "differ", flush=True)
    sys.exit(failed > 0)


def speed(pipe, file):
    text = pathlib.Path(file).read_text()
    size = len(text.encode())
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            made, path = saved(folder, kind, 8000)
            start = time.perf_counter()
            ids = made.encode(text).ids
            theirs = time.perf_counter() - start
            list(piped(pipe, path, [""]))
            start = time.perf_counter()
            list(piped(pipe, path, [""]))
            idle = time.perf_counter() - start
            start = time.perf_counter()
            ours = next(piped(pipe, path, [text]))
            mine = time.perf_counter() - start - idle
            print(f"{kind}: {size / 1e6:.1f} MB, {len(ids)} ids, equal: {ids == ours}; tokenizers "
                  f"{size / theirs / 1e6:.2f} MB/s, tandem {size / mine / 1e6:.2f} MB/s by a pipe")


if __name__ == "__main__":
    if sys.argv[1] == "fixtures":
        fixtures()
    elif sys.argv[1] == "fuzz":
        fuzz(sys.argv[2], int(sys.argv[3]), *map(int, sys.argv[4:5]))
    elif sys.argv[1] == "tiktoken":
        against_tiktoken(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "characters":
        characters(sys.argv[2])
    elif sys.argv[1] == "speed":
        speed(sys.argv[2], sys.argv[3])
