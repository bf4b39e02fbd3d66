"""What the others are to read: session.py TANDEM FOLDER trains a GPT-2 and a Llama of bytes there."""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
MODELS = {"gpt": "demo", "llama": "tiny-llama"}


def main(tandem, folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def run(command):
        subprocess.run([tandem, *command.split()], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    for name, file in MODELS.items():
        run(f"profile --model {ROOT}/tools/models/{file}.json --repetitions 2 --output {name}.profile.json")
        run(f"plan --profile {name}.profile.json --devices 2 --global-batch 8 --schedule 2bw --output {name}.plan.json")
        run(f"train {name}.plan.json --steps 60 --learning-rate 0.003 --checkpoint {name} --log {name}.jsonl"
            f" --validate-every 20 --validation-batches 2 --tensorboard {name}.events")
    text = (ROOT / "executor/data/kjv_excerpt.txt").read_bytes()
    (folder / "text").write_bytes(text[-8_000:])


if __name__ == "__main__":
    main(*sys.argv[1:])
