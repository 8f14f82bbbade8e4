-- Tests batches of texts: each text gets the same tokens as alone, texts join and leave, errors end only their text,
-- and common prefixes are reused.

local torch = require "tlua"

local folder <const> = "rocks/llm/spec/fixtures/"
local loaded = {}
local function load(name)
   loaded[name] = loaded[name] or torch.llm.load(folder .. name .. ".gguf")
   return loaded[name]
end

local function tokens(count, step)
   local list = {}
   for i = 1, count do list[i] = step * (i - 1) % 200 + 61 end
   return list
end

-- Each row has a prompt and options.
local rows <const> = {
   {tokens(40, 7), {max_tokens = 12}}, {{61}, {max_tokens = 20}}, {tokens(25, 11), {max_tokens = 3}},
   {tokens(30, 7), {max_tokens = 16, repeat_penalty = 1.3}},
   {tokens(5, 3), {max_tokens = 30, grammar = 'root ::= ("hello" | "the world")+'}},
   {tokens(33, 13), {max_tokens = 9, temperature = 1.5, top_k = 0, top_p = 1.0, min_p = 0.0, seed = 5}},
}

local function options(row)
   local copy = {temperature = 0}
   for name, value in pairs(row[2]) do copy[name] = value end
   return copy
end

-- Returns the text, the reason for the end and the tokens that each row gets when it is computed without the others.
local function alone(model)
   local results = {}
   for i, row in ipairs(rows) do
      model:reset()
      local batch = model:batch {n_parallel = 1}
      results[i] = batch:add(row[1], options(row))
      batch:run()
      local text, reason = model:generate(row[1], options(row))
      assert.equal(text, results[i].text)
      assert.equal(reason, results[i].finish_reason)
   end
   return results
end

describe("llm.Batch", function()
   -- gemma2 and gemma3 have sliding windows of 16 tokens; llama3 and linear have scaled rotations
   for _, name in ipairs {"llama", "mixed", "llama3", "linear", "qwen2", "qwen3", "gemma", "gemma2", "gemma3",
         "phi3", "mixtral", "qwen2moe"} do
      it("gives each text the tokens that it gets alone: " .. name, function()
         local model = load(name)
         local expected = alone(model)
         for _, n_parallel in ipairs {2, 16} do
            local batch, got = model:batch {n_parallel = n_parallel}, {}
            for i, row in ipairs(rows) do
               got[i] = batch:add(row[1], options(row))
               batch:step() -- a step between two texts makes later texts join while earlier texts are being computed
            end
            batch:run()
            for i in ipairs(rows) do
               assert.same(expected[i].tokens, got[i].tokens)
               assert.equal(expected[i].text, got[i].text)
               assert.equal(expected[i].finish_reason, got[i].finish_reason)
            end
         end
      end)
   end

   it("computes prompts in parts of n_batch tokens, beside texts that are generated", function()
      local model = load "qwen2"
      local small = torch.llm.load(folder .. "qwen2.gguf", {n_batch = 7})
      local expected = alone(model)
      local batch, got = small:batch {n_parallel = 3}, {}
      for i, row in ipairs(rows) do got[i] = batch:add(row[1], options(row)) end
      batch:run()
      for i in ipairs(rows) do assert.same(expected[i].tokens, got[i].tokens) end
   end)

   it("ends one text by cancel, its error or its stop text, and no other", function()
      local model = load "llama"
      local expected = model:generate(rows[1][1], {max_tokens = 20, temperature = 0})
      local batch = model:batch {n_parallel = 3}
      local kept = batch:add(rows[1][1], {max_tokens = 20, temperature = 0})
      local stopped = batch:add(rows[1][1], {max_tokens = 20, temperature = 0, stop = expected:sub(6, 7)})
      local failing = batch:add("hello", {max_tokens = 20, stream = function() error("no more", 0) end})
      local waiting = batch:add("the", {max_tokens = 2, temperature = 0})
      local dropped = batch:add("the", {max_tokens = 60, logit_bias = {[model.tokenizer.eos] = -1e9}})
      for _ = 1, 4 do batch:step() end
      dropped:cancel()
      batch:run()
      dropped:cancel() -- a second call of cancel does nothing
      assert.equal(expected, kept.text)
      assert.equal("stop", stopped.finish_reason)
      assert.equal(expected:sub(1, expected:find(expected:sub(6, 7), 1, true) - 1), stopped.text)
      assert.equal("error", failing.finish_reason)
      assert.equal("no more", failing.error)
      assert.equal("length", waiting.finish_reason)
      assert.equal("cancelled", dropped.finish_reason)
      assert.equal(0, batch:step())
      local first = batch:add("hello", {max_tokens = 9})
      batch:step()
      first:cancel()
      assert.equal(0, batch:step())
   end)

   it("continues correctly after a step that an error of the model has ended halfway", function()
      for _, name in ipairs {"gemma3", "qwen2"} do
         local model, steps = load(name), 0
         local expected = alone(model)
         local batch, got = model:batch {n_parallel = 4}, {}
         for i, row in ipairs(rows) do got[i] = batch:add(row[1], options(row)) end
         local hook = model.model.model.layers[2]:register_forward_pre_hook(function()
            steps = steps + 1
            if steps % 3 == 1 then error("halfway", 0) end
         end)
         local failed = 0
         while true do
            local ok, left = pcall(batch.step, batch)
            if ok and left == 0 then break end
            if not ok then
               assert.equal("halfway", left)
               failed = failed + 1
            end
         end
         hook:remove()
         assert.is_true(failed > 5)
         for i in ipairs(rows) do assert.same(expected[i].tokens, got[i].tokens) end
      end
   end)

   it("reuses the keys and values of an earlier text with the same beginning", function()
      local model = load "qwen2"
      local batch = model:batch {n_parallel = 2}
      local first = batch:add(tokens(30, 7), {max_tokens = 3, temperature = 0})
      batch:run()
      assert.equal(0, first.cached_tokens)
      local longer = table.move(first.tokens, 1, #first.tokens, 1, {})
      longer[#longer + 1] = 99
      local second = batch:add(longer, {max_tokens = 3, temperature = 0})
      local third = batch:add({70, 80}, {max_tokens = 3, temperature = 0})
      batch:run()
      -- the last token was drawn, but its keys and values were not computed
      assert.equal(#first.tokens - 1, second.cached_tokens)
      assert.equal(0, third.cached_tokens)
      model:reset()
      assert.equal(model:generate(longer, {max_tokens = 3, temperature = 0}), second.text)
   end)

   it("computes a beginning that several texts share only once", function()
      for name, own in pairs {qwen3 = {cache_type = "q8_0"}, llama = {}, gemma3 = {}} do
         local model = torch.llm.load(folder .. name .. ".gguf", own)
         local computed = 0
         local shared, prompts, expected = tokens(60, 7), {}, {}
         for i = 1, 6 do
            prompts[i] = table.move(shared, 1, 60, 1, {})
            for k = 1, i % 3 do prompts[i][60 + k] = 70 + 5 * i + k end
            model:reset()
            expected[i] = model:generate(prompts[i], {max_tokens = 5, temperature = 0})
         end
         local hook = model.model.model.layers[1]:register_forward_pre_hook(function(_, x)
            computed = computed + (torch.is_tensor(x) and x or x[1]):size(2)
         end)
         local batch, got = model:batch {n_parallel = 6}, {}
         for i = 1, 6 do got[i] = batch:add(prompts[i], {max_tokens = 5, temperature = 0}) end
         batch:run()
         hook:remove()
         for i = 1, 6 do
            assert.is_nil(got[i].error)
            assert.equal(expected[i], got[i].text)
            assert.is_true(name == "gemma3" or i == 1 or got[i].cached_tokens >= 59)
         end
         -- At most this many tokens are computed: the common prompt once, 3 further tokens of each prompt, and 4 new
         -- tokens of each text.
         if name ~= "gemma3" then assert.is_true(computed <= 60 + 6 * 7, computed) end
      end
   end)

   it("drops the caches that were used the longest time ago", function()
      local model = load "qwen2"
      local scheduler = require "tlua.llm.scheduler"(model.model,
         {n_parallel = 3, n_batch = 64, device = "cpu", idle_bytes = 100000})
      local function run(first)
         local entry = scheduler:add({first, 70, 71, 72}, {sampler = require "tlua.llm.sampling".sampler {
            temperature = 0, top_k = 0, top_p = 1.0, min_p = 0.0, typical_p = 1.0, repeat_penalty = 1.0,
            presence_penalty = 0.0, frequency_penalty = 0.0, repeat_last_n = 0},
            accept = function() return "length" end})
         while not entry.reason do scheduler:step() end
         return entry.cached
      end
      -- a cache has 2 layers * 2 * 2 heads * 68 positions * 16 features of 4 bytes: 34,816 bytes
      for first = 61, 63 do assert.equal(0, run(first)) end
      assert.equal(0, run(61)) -- the cache of this text was dropped when the third text ended
      assert.equal(3, run(63))
      assert.equal(3, run(61))
   end)

   it("ends at the limit of the context, and refuses prompts beyond it", function()
      local model = torch.llm.load(folder .. "llama.gguf", {n_ctx = 12})
      local batch = model:batch {n_parallel = 2}
      local full = batch:add(tokens(12, 7), {max_tokens = 5})
      local nearly = batch:add(tokens(9, 7), {max_tokens = 0, temperature = 0,
         logit_bias = {[model.tokenizer.eos] = -1e9}})
      assert.equal("length", full.finish_reason)
      batch:run()
      assert.equal(12, #nearly.tokens)
      assert.equal("length", nearly.finish_reason)
      assert.raises("llm.Batch.add: expected at most n_ctx = 12 tokens, got 13",
         function() batch:add(tokens(13, 7)) end)
      assert.equal(0, batch:step())
   end)

   it("continues an empty text from the token that begins texts", function()
      local model = load "llama"
      local batch = model:batch()
      local sequence = batch:add("", {max_tokens = 2, temperature = 0})
      batch:run()
      assert.equal(1, sequence.prompt_tokens)
      assert.equal(model.tokenizer.bos, sequence.tokens[1])
      assert.raises("llm.Batch.add: tokens: expected at least one token, got none", function() batch:add {} end)
   end)

   it("continues with the right tokens after a step whose coroutine was closed or collected", function()
      local model = load "llama"
      for _, abandon in ipairs {coroutine.close, function() end} do
         local batch = model:batch {n_parallel = 3}
         local expected, sequences = {}, {}
         for i = 1, 3 do
            local own = {max_tokens = 12, temperature = 0, logit_bias = {[model.tokenizer.eos] = -1e9}}
            expected[i] = model:generate(tokens(9, 7 + i), own)
            if i == 2 then own.stream = function() if coroutine.isyieldable() then coroutine.yield() end end end
            sequences[i] = batch:add(tokens(9, 7 + i), own)
         end
         local running = coroutine.create(function() batch:run() end)
         assert.is_true(coroutine.resume(running))
         assert.raises("a function that is called during a step cannot", function() batch:step() end)
         abandon(running)
         running = nil -- luacheck: ignore 311
         batch:run()
         for i = 1, 3 do assert.equal(expected[i], sequences[i].text) end
      end
   end)

   it("continues after an interactive line that Ctrl-C has ended, at any of its instructions", function()
      local repl, model = require "tlua.repl", load "qwen2"
      local function complete() return model:create_completion("a", {max_tokens = 1}) end
      complete()
      for last = 1, 4000, 5 do
         local count = 0
         local function strike()
            count = count + 1
            if count < last then return end
            debug.sethook()
            error("interrupted!", 0)
         end
         repl.begin_line()
         local fine = pcall(function()
            debug.sethook(strike, "crl", 1)
            complete()
         end)
         debug.sethook()
         repl.end_line(not fine)
         assert.equal("length", complete().choices[1].finish_reason)
      end
   end)

   it("takes changed logits from logits_processor, and refuses all else", function()
      local model = load "llama"
      local own = {max_tokens = 6, temperature = 0, logit_bias = {[model.tokenizer.eos] = -1e9}}
      local function generate(fn)
         own.logits_processor = fn
         return model:generate(tokens(9, 7), own)
      end
      local expected = generate()
      for _, fn in ipairs {
         function(_, logits) return logits:double() end,
         function(_, logits) return logits:clone():requires_grad_() end,
         function(history) for i = #history, 1, -1 do history[i] = nil end end,
      } do
         assert.equal(expected, generate(fn))
      end
      local size = #model.tokenizer.tokens
      for _, case in ipairs {
         {"false", function() return false end}, {"a table", function() return {} end},
         {"a float32 tensor of shape (5)", function(_, logits) return logits:narrow(1, 1, 5) end},
         {"a float32 tensor of shape (3)", function(_, logits) logits:resize_(3) end},
         {("a bool tensor of shape (%d)"):format(size), function(_, logits) return logits:gt(0) end},
         {("a float32 tensor of shape (1, %d)"):format(size), function(_, logits) return logits:unsqueeze(1) end},
      } do
         assert.raises(("logits_processor: expected floating logits of shape (%d), or nil, got %s"):format(size,
            case[1]), function() generate(case[2]) end)
      end
      for _, temperature in ipairs {1e-300, math.huge} do
         local text = model:generate(tokens(9, 7), {temperature = temperature, top_k = 0, top_p = 1, min_p = 0,
            seed = 3, max_tokens = 6, logit_bias = {[model.tokenizer.eos] = -math.huge}})
         assert.equal(temperature < 1, text == expected)
      end
   end)

   it("refuses stop texts that are no list, and continues a list of tokens after its own text", function()
      local model = load "llama"
      assert.raises("llm.Model.generate: stop: expected a text, or a list of texts, got a table",
         function() model:generate("a", {stop = {first = "x"}}) end)
      assert.raises("llm.Model.generate: stop: expected a text that is not empty, or a list of texts, got 1",
         function() model:generate("a", {stop = {1}}) end)
      assert.raises("llm.Model.create_chat_completion: options: expected a table, got \"x\"",
         function() model:create_chat_completion({{role = "user", content = "a"}}, "x") end)
      assert.raises("llm.load: dtype: expected a floating dtype, got \"int8\"",
         function() torch.llm.load(folder .. "llama.gguf", {dtype = "int8"}) end)
      local own = {max_tokens = 3, temperature = 0}
      local list = model:tokenize "hello"
      local text = model:generate(list, own)
      own.echo = true
      assert.equal(model:detokenize(list) .. text, (model:generate(list, own)))
   end)

   it("makes caches for the texts that are there, whatever n_parallel is", function()
      local model = load "llama"
      local batch = model:batch {n_parallel = 1 << 40}
      local sequence = batch:add(tokens(9, 7), {max_tokens = 3, temperature = 0})
      batch:run()
      assert.equal(model:generate(tokens(9, 7), {max_tokens = 3, temperature = 0}), sequence.text)
      assert.equal(("llm.Batch(n_parallel=%d, 0 open)"):format(1 << 40), tostring(batch))
   end)

   it("refuses wrong options, and steps within steps", function()
      local model = load "llama"
      assert.raises("llm.Model.batch: n_parallel: expected at least 1, got 0",
         function() model:batch {n_parallel = 0} end)
      local batch = model:batch {n_parallel = 2}
      assert.raises("llm.Batch.add: echo: expected nothing, got true", function() batch:add("a", {echo = true}) end)
      assert.raises("did you mean max_tokens", function() batch:add("a", {max_token = 1}) end)
      assert.raises("llm.Sequence: use llm.Batch.add", function() torch.llm.Sequence() end)
      local sequence = batch:add("a", {max_tokens = 2, stream = function() batch:step() end,
         logit_bias = {[270] = 1e4}})
      batch:run()
      assert.matches("a function that is called during a step cannot compute another one", sequence.error)
      assert.equal("llm.Batch(n_parallel=2, 0 open)", tostring(batch))
   end)

   it("computes all tokens again when an adapter changes the layers", function()
      local model = torch.llm.load(folder .. "llama.gguf")
      local tuned = torch.llm.load(folder .. "llama.gguf")
      tuned:load_lora(folder .. "adapter.gguf", {scale = 3.0})
      local own = {max_tokens = 12, temperature = 0, logit_bias = {[model.tokenizer.eos] = -1e9}}
      local batch = model:batch {n_parallel = 2}
      local sequence = batch:add(tokens(30, 7), own)
      for _ = 1, 4 do batch:step() end
      model:load_lora(folder .. "adapter.gguf", {scale = 3.0})
      local so_far = table.move(sequence.tokens, 1, #sequence.tokens, 1, {})
      own.max_tokens = 12 - (#so_far - 30)
      batch:run()
      local text = model:detokenize({table.unpack(sequence.tokens, #so_far + 1)})
      assert.equal(tuned:generate(so_far, own), require "tlua.text.tokenizer.decoders".repair(text))
   end)

   it("keeps the cache of a text while it is generated", function()
      local model = load "llama"
      local expected = model:generate(tokens(20, 7), {max_tokens = 6, temperature = 0})
      for _, call in ipairs {
         function() model:logits {1, 2} end, function() model:save_state(os.tmpname()) end,
         function() model:perplexity(tokens(200, 7), {n_ctx = 16}) end,
      } do
         local refused = 0
         local text = model:generate(tokens(20, 7), {max_tokens = 6, temperature = 0, stream = function()
            local ok, why = pcall(call)
            assert.is_false(ok)
            assert.matches("llm: the model's cache is in use by the text that is being generated", why, 1, true)
            refused = refused + 1
         end})
         assert.equal(expected, text)
         assert.is_true(refused > 0)
      end
   end)

   it("reports logits that are NaN or infinite, instead of choosing the first token", function()
      local model = load "llama"
      for value, said in pairs {[0 / 1] = false, [math.huge] = "a logit is infinite",
            [-math.huge] = "the logits of all tokens are minus infinity"} do
         for _, temperature in ipairs {0, 0.8} do
            local ok, why = pcall(model.generate, model, "hello", {max_tokens = 1, temperature = temperature,
               logits_processor = function(_, logits) return logits:fill_(value) end})
            assert.equal(not said, ok)
            if said then assert.matches(said, why) end
         end
      end
      for _, own in ipairs {{temperature = 0}, {}, {top_k = 0, top_p = 1.0, min_p = 0.0}, {typical_p = 0.5}} do
         own.max_tokens, own.logits_processor = 1, function(_, logits) return logits * (0 / 0) end
         assert.raises("llm: the logits are NaN", function() model:generate("hello", own) end)
      end
   end)

   it("draws from the whole vocabulary with the probabilities that softmax gives", function()
      local sampling = require "tlua.llm.sampling"
      local generator = torch.Generator "cpu":manual_seed(2)
      local logits = torch.randn(3000, {generator = generator, device = "cpu"}) * 3
      local function distribution(own)
         for name, value in pairs(sampling.defaults) do
            if own[name] == nil then own[name] = value end
         end
         return sampling.sampler(own):distribution(logits:clone(), {})
      end
      local p = (logits / 0.5):softmax(1)
      local whole = distribution {top_k = 0, top_p = 1.0, min_p = 0.0, temperature = 0.5}
      assert.close(p, whole.all, 1e-7)
      assert.close(p[7]:item(), sampling.probability(whole, 7), 1e-9)
      -- Both samplers apply top_p and min_p: one sorts all logits, the other finds only the best logits.
      for _, own in ipairs {{top_p = 0.3}, {top_p = 0.999}, {min_p = 1e-4}, {top_p = 0.9, min_p = 0.01}} do
         local function copy(top_k)
            local o = {temperature = 0.5, top_k = top_k, min_p = own.min_p or 0.0, top_p = own.top_p or 1.0}
            return distribution(o)
         end
         local some, all, dense = copy(0), copy(3000), torch.zeros(3000, {dtype = "float64"})
         for i, value in ipairs(all.p) do dense[all.ids[i]] = value end
         local found = some.all or torch.zeros(3000, {dtype = "float64"})
         for i, value in ipairs(some.p or {}) do found[some.ids[i]] = value end
         assert.is_true(torch.equal(dense:gt(0), found:gt(0)))
         assert.close(dense, found:double(), 1e-6)
      end
   end)

   it("draws tokens of the whole vocabulary as often as their probabilities say", function()
      local sampling = require "tlua.llm.sampling"
      local p = torch.tensor {0, 0.5, 0, 0.25, 0.125, 0.125, 0}
      local sampler, counts, n = sampling.sampler {seed = 3}, {0, 0, 0, 0, 0, 0, 0}, 20000
      for _ = 1, n do
         local token = sampler:draw {all = p}
         counts[token] = counts[token] + 1
      end
      for i, value in ipairs(p:tolist()) do -- a mean may differ from its expected value by 4.5 standard deviations
         assert.is_true(math.abs(counts[i] - n * value) <= 4.5 * math.sqrt(n * value * (1 - value)))
      end
      assert.equal(2, sampler:draw {all = torch.tensor {0, 1e-30, 0}})
   end)
end)
