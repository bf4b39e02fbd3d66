"""Reads event files of `tandem train --tensorboard DIR` with TensorBoard, and compares them with the log.

    python3 -m venv v && v/bin/pip install tensorboard setuptools
    tandem train plan.json --steps 20 --validate-every 5 --log run.jsonl --tensorboard events
    v/bin/python read_by_tensorboard.py events run.jsonl
"""

import json
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

LOGGED = ("loss", "gradient_norm", "learning_rate", "tokens_per_s", "computing", "validation_loss")


def single(number):
    return struct.unpack("f", struct.pack("f", number))[0]


def main(folder, log):
    read = EventAccumulator(folder, size_guidance={"scalars": 0})
    read.Reload()
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    for tag in LOGGED:
        expected = [(line["step"], single(line[tag])) for line in lines if tag in line]
        found = [(event.step, event.value) for event in read.Scalars(tag)]
        assert found == expected, (tag, found, expected)
        assert found != [(step + 1, value) for step, value in expected], tag  # the control
        print(f"{tag}: {len(found)} values, equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
