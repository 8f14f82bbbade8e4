# generate.py - generate.lua's program for transformers: python rocks/text/spec/bench/generate.py [THREADS] [TOKENS] [BATCH]
import sys, time
sys.modules["torchaudio"] = None
import torch, transformers as t
threads, count, batch = [int(a) for a in sys.argv[1:]] + [1, 64, 1][len(sys.argv) - 1:]
torch.set_num_threads(threads)
torch.manual_seed(1)
model = t.GPT2LMHeadModel(t.GPT2Config()).eval()
ids = torch.randint(0, 50256, (batch, 16))
mask = torch.ones_like(ids)

def run(n):
    start, cpu = time.perf_counter(), time.process_time()
    with torch.no_grad():
        model.generate(ids, attention_mask=mask, max_new_tokens=n, do_sample=False, eos_token_id=None, pad_token_id=0)
    return time.perf_counter() - start, time.process_time() - cpu

run(4)
runs = [run(count) for _ in range(3)]
best, least = min(r[0] for r in runs), min(r[1] for r in runs)
print(f"threads {threads}  batch {batch}  {batch * count / best:.1f} tokens/s  "
      f"({1000 * best / count:.2f} ms a token, {1000 * least / count:.2f} ms of processor time)")
