"""Makes the training corpus: plain text by chapter from Debian's public-domain packages, parted into
training and validation. Called by tools/scripts/corpus, which installs what this reads.

usage: corpus.py FOLDER        writes FOLDER/train.txt and FOLDER/validation.txt

package            text                                  chapters  held out       bytes
sword-comm-tdavid  Spurgeon, The Treasury of David            151        14  11,767,183
sword-comm-mhcc    Matthew Henry's Concise Commentary         934        52   5,203,727
bible-kjv-text     King James Version                        1189        57   4,152,019
jargon-text        The Jargon File 4.4.7                      176         3   1,560,615

All are in the public domain (each package's `copyright`). Validation has 2.95 MB, for a few of
Spurgeon's chapters are long, training 19.7 MB. A commentary's sections stand again at every verse
they are about: each is kept once, where it stands first, so that none is on both sides.
"""

import gzip
import hashlib
import html
import pathlib
import re
import subprocess
import sys

HELD_OUT = 20  # one chapter in 20, by the hash of its name
JARGON_CHAPTER = 8192  # characters: the Jargon File is one long list
LONGEST_HEADING = 40  # characters: such as "Verses 3-5", in many chapters
ALL_VERSES = "gen1:1-rev22:21"


def output_of(*command):
    # mod2imp complains on stderr of each verse that a commentary has nothing on.
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return done.stdout.decode("utf-8", "replace")


def plain(text):
    """Without markup: a paragraph a line."""
    text = re.sub(r"<(div|lb|p|title|milestone)[^>]*>", "\n", text)
    text = html.unescape(re.sub(r"<[^>]*>", "", text))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def commentary(module):
    """Chapters of a SWORD module. A section stands again at each verse it is about: kept once."""
    seen = set()
    chapters = {}
    for entry in output_of("mod2imp", module).split("$$$")[1:]:
        place, _, raw = entry.partition("\n")
        name = f"{module} {place.rpartition(':')[0]}"
        for line in plain(raw).splitlines():
            key = line if len(line) > LONGEST_HEADING else (name, line)
            if key not in seen and ":" in place:
                seen.add(key)
                chapters.setdefault(name, []).append(line)
    return {name: "\n".join(lines) for name, lines in chapters.items()}


def king_james():
    chapters = {}
    lines = None
    for line in output_of("bible", "-l100000", ALL_VERSES).splitlines():
        if re.fullmatch(r"(\d )?[A-Z][A-Za-z ]* \d+", line):
            lines = chapters.setdefault(line, [line])
        elif line.strip():
            lines.append(re.sub(r"^ *\d+ ", "", line))
    return {name: "\n".join(lines) for name, lines in chapters.items()}


def jargon_file():
    packed = pathlib.Path("/usr/share/doc/jargon-text/jargon.txt.gz").read_bytes()
    paragraphs = plain_paragraphs(gzip.decompress(packed).decode("utf-8", "replace"))
    chapters, size = [[]], 0
    for paragraph in paragraphs:
        if size > JARGON_CHAPTER:
            chapters.append([])
            size = 0
        chapters[-1].append(paragraph)
        size += len(paragraph)
    return {f"Jargon File {i}": "\n".join(parts) for i, parts in enumerate(chapters)}


def plain_paragraphs(text):
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return [paragraph for paragraph in paragraphs if paragraph]


def held_out(name):
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % HELD_OUT == 0


SOURCES = [
    ("sword-comm-tdavid", "Spurgeon, The Treasury of David", lambda: commentary("TDavid")),
    ("sword-comm-mhcc", "Matthew Henry's Concise Commentary", lambda: commentary("MHCC")),
    ("bible-kjv-text", "King James Version", king_james),
    ("jargon-text", "The Jargon File 4.4.7", jargon_file),
]


def main():
    folder = pathlib.Path(sys.argv[1])
    parts = {"train": [], "validation": []}
    print(f"{'package':<20} {'text':<36} {'chapters':>8} {'held out':>8} {'bytes':>11}  licence")
    for package, title, read in SOURCES:
        chapters = read()
        count = 0
        size = 0
        for name, text in chapters.items():
            text += "\n\n"
            size += len(text.encode())
            count += held_out(name)
            parts["validation" if held_out(name) else "train"].append(text)
        print(f"{package:<20} {title:<36} {len(chapters):>8} {count:>8} {size:>11,}  public domain")
    for name, texts in parts.items():
        data = "".join(texts).encode()
        (folder / f"{name}.txt").write_bytes(data)
        print(f"{name + '.txt':<20} {'':<36} {len(texts):>8} {'':>8} {len(data):>11,}")


main()
