-- Measures the speed of several texts in one batch:
--
--    tlua rocks/llm/spec/bench_batch.lua model.gguf [threads] [prompt] [new] [runs]
--
-- Prints two figures for 1, 4 and 16 texts: the new tokens per second of all texts together in the whole time, which
-- includes the prompts (this is what a server's clients see), and the same for the steps after the prompts. Each figure
-- is the best of the runs.

local torch = require "tlua"

local path, threads = arg[1], tonumber(arg[2]) or 1
local prompt_length, new = tonumber(arg[3]) or 32, tonumber(arg[4]) or 64
local runs = tonumber(arg[5]) or 3

torch.set_num_threads(threads)
local llm = torch.llm.load(path)
local clock = torch.io.clock
local best = {}

local function measure(count)
   local batch = llm:batch {n_parallel = count}
   local start = clock()
   for k = 1, count do
      local tokens = {}
      for i = 1, prompt_length do tokens[i] = (7 * i + 31 * k) % 200 + 61 end
      batch:add(tokens, {max_tokens = new, temperature = 0, logit_bias = {[llm.tokenizer.eos] = -1e9}})
   end
   batch:step()
   local begin = clock()
   batch:run()
   local finish = clock()
   local row = best[count] or {all = 0, steps = 0}
   row.all = math.max(row.all, count * new / (finish - start))
   row.steps = math.max(row.steps, count * (new - 1) / (finish - begin))
   best[count] = row
end

for _ = 1, runs do
   for _, count in ipairs {1, 4, 16} do measure(count) end
end
for _, count in ipairs {1, 4, 16} do
   print(("%2d texts, %d threads: %.1f new tokens/s, %.1f without the prompts"):format(count, threads, best[count].all,
      best[count].steps))
end
