-- generate.lua - measures how many tokens per second GPT-2 (124M parameters, random weights, float32) generates.
-- generate.py does the same with transformers:
--
--    tlua rocks/text/spec/bench/generate.lua [THREADS] [TOKENS] [BATCH]

local torch = require "tlua"

local threads, count, batch = tonumber(arg[1]) or 1, tonumber(arg[2]) or 64, tonumber(arg[3]) or 1
torch.set_num_threads(math.tointeger(threads))
torch.manual_seed(1)
local model = torch.text.from_config({model_type = "gpt2"}):eval()
local ids = torch.randint(1, 50257, {math.tointeger(batch), 16})

local function run(n)
   local start, cpu = torch.io.clock(), os.clock()
   model:generate(ids, {max_new_tokens = math.tointeger(n), eos_token_id = {}, pad_token_id = 1})
   return torch.io.clock() - start, os.clock() - cpu
end

run(4)
local best, least = math.huge, math.huge
for _ = 1, 3 do
   local wall, cpu = run(count)
   best, least = math.min(best, wall), math.min(least, cpu)
end
print(("threads %d  batch %d  %.1f tokens/s  (%.2f ms a token, %.2f ms of processor time)"):format(threads, batch,
   batch * count / best, 1000 * best / count, 1000 * least / count))
