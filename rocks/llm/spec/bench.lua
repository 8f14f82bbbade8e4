-- Measures the speed and memory of a language model:
--
--    tlua rocks/llm/spec/bench.lua model.gguf [threads] [prompt] [new]
--
-- Prints tokens per second for the prompt and for new tokens (medians of three runs), the milliseconds
-- until the first token, and the largest resident memory in megabytes. bench.py measures llama.cpp in the
-- same way; fixtures/make.py writes models.

local torch = require "tlua"

local path, threads = arg[1], tonumber(arg[2]) or 1
local prompt_length, new = tonumber(arg[3]) or 128, tonumber(arg[4]) or 64

local function status(name)
   for line in io.lines "/proc/self/status" do
      local value = line:match("^" .. name .. ":%s*(%d+)")
      if value then return tonumber(value) / 1024 end
   end
end

local function median(list)
   table.sort(list)
   return list[(#list + 1) // 2]
end

torch.set_num_threads(threads)
local llm = torch.llm.load(path)
local tokens = {}
for i = 1, prompt_length do tokens[i] = 7 * i % 200 + 61 end
local clock = torch.io.clock
local first, rest = {}, {}
for run = 0, 3 do
   llm:reset()
   local times = {}
   local start = clock()
   llm:generate(tokens, {max_tokens = new + 1, temperature = 0, logits_processor = function(_, logits)
      times[#times + 1] = clock()
      logits[llm.tokenizer.eos] = -1e9
   end})
   if run > 0 then
      first[run] = times[1] - start
      rest[run] = (times[#times] - times[1]) / (#times - 1)
   end
end
local prompt_time = median(first)
print(("tlua, %d threads: prompt %.1f tokens/s, new %.1f tokens/s, first token %.1f ms, resident %.0f MB")
   :format(threads, prompt_length / prompt_time, 1 / median(rest), prompt_time * 1e3, status "VmHWM"))
