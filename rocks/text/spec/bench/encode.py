"""Compares the speed of tlua's tokenizers with that of Hugging Face's library, on one thread:

    python rocks/text/spec/fixtures/tokenizers.py /tmp/kinds 1 8000
    python rocks/text/spec/bench/encode.py build/tlua /tmp/kinds [KIND...]

Texts are lines of this repository's Markdown and Lua files, 20 of every 100. Prints for each kind the library's
milliseconds, and the quotients of the library's time and tlua's: for loading, for the first pass over the texts, for later passes,
and whether the tokens are the same. tlua runs before and after the library, and its faster run counts.
"""
import glob
import os
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
here = os.path.dirname(os.path.abspath(__file__))
from tokenizers import Tokenizer

command, folder = sys.argv[1:3]
kinds = sys.argv[3:] or ("gpt2 roberta llama3 qwen o200k deepseek whisper clip bert bert_cased electra xlmr t5 albert nmt "
                         "llama2 mistral unknown words gpt1").split()
lines = []
for name in sorted(glob.glob("**/*.md", recursive=True) + glob.glob("lua/**/*.lua", recursive=True)):
    lines += open(name).read().split("\n")
texts = ["\n".join(lines[i:i + 20]).replace("\0", "") for i in range(0, len(lines), 100)]
texts = [text for text in texts if text]


def ours(name, place):
    out = subprocess.run([command, here + "/encode.lua", f"{folder}/{name}.json", place], capture_output=True, text=True, check=True)
    return [float(word) for word in out.stdout.split()]


def timed(fn):
    start = time.process_time()
    result = fn()
    return time.process_time() - start, result


with tempfile.TemporaryDirectory() as temporary:
    place = temporary + "/texts"
    with open(place, "w", newline="") as file:
        file.write("\0".join(texts))
    print(f"{len(texts)} texts, {sum(len(text.encode()) for text in texts)} bytes")
    print(f"{'kind':12}{'load':>9}{'cold':>9}{'warm':>9} ms   load   cold   warm  equal")
    for name in kinds:
        first = ours(name, place)
        load, tokenizer = timed(lambda: Tokenizer.from_file(f"{folder}/{name}.json"))
        cold, encodings = timed(lambda: [tokenizer.encode(text) for text in texts])
        warm = min(timed(lambda: [tokenizer.encode(text) for text in texts])[0] for _ in range(3))
        second = ours(name, place)
        mine = [min(a, b) for a, b in zip(first, second)]
        total = 0
        for encoding in encodings:
            for k, number in enumerate(encoding.ids):
                total = (total + (number + 1) * (k + 1)) % 1000000007
        equal = total == int(mine[4])
        print(f"{name:12}{load * 1e3:9.1f}{cold * 1e3:9.1f}{warm * 1e3:9.1f}    {load / mine[0]:6.2f} {cold / mine[1]:6.2f} "
              f"{warm / mine[2]:6.2f}  {'yes' if equal else 'NO'}", flush=True)
