-- Measures how many tokens a second the server generates for several clients at once:
--
--    tlua rocks/serve/spec/load_language.lua model.gguf [threads] [prompt] [new]
--
-- Groups of 1, 4 and 16 clients ask for texts of `new` tokens at the same time. Each figure is the best of three runs.
-- rocks/llm/spec/fixtures/make.py writes models for this.

package.path = "rocks/serve/spec/?.lua;" .. package.path
local torch = require "tlua"
local json = torch.utils.json
local Client = require "client"

local path, threads = assert(arg[1], "expected a model"), tonumber(arg[2]) or 1
local prompt_length, new = tonumber(arg[3]) or 32, tonumber(arg[4]) or 64

local server = torch.serve.start(path, {port = 0, quiet = true, threads = threads})
assert(Client.wait(server.port), "the server is not ready")
local _, listed = Client.once(server.port, "GET", "/v1/models")
local name = json.decode(listed).data[1].id

local function body(k)
   local prompt = {}
   for i = 1, prompt_length do prompt[i] = (7 * i + 31 * k) % 200 + 60 end
   -- token 2, which ends texts in the models of make.py, is excluded
   return json.encode {model = name, prompt = json.as_array(prompt), max_tokens = new, temperature = 0,
      logit_bias = {["2"] = -1e6}}
end

local function measure(count, run)
   local clients = {}
   for k = 1, count do clients[k] = Client.new(server.port) end
   local start, tokens = torch.io.clock(), 0
   for k = 1, count do clients[k]:start("POST", "/v1/completions", body(k + 16 * run)) end
   for k = 1, count do
      local status, text = clients[k]:answer()
      assert(status == 200, text)
      tokens = tokens + json.decode(text).usage.completion_tokens
      clients[k]:close()
   end
   return tokens / (torch.io.clock() - start)
end

local best = {}
for run = 1, 3 do
   for _, count in ipairs {1, 4, 16} do best[count] = math.max(best[count] or 0, measure(count, run)) end
end
for _, count in ipairs {1, 4, 16} do
   print(("%2d clients, %d threads: %.1f tokens/s"):format(count, threads, best[count]))
end
server:stop()
