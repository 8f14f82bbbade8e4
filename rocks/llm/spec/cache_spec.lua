-- Tests caches of keys and values that use fewer bits, states in files, drafts, and perplexity.

local torch = require "tlua"
local sampling = require "tlua.llm.sampling"
local shell = require "spec.support.shell"

local folder <const> = "rocks/llm/spec/fixtures/"
local loaded = {}
local function load(name, options)
   if options then return torch.llm.load(folder .. name .. ".gguf", options) end
   loaded[name] = loaded[name] or torch.llm.load(folder .. name .. ".gguf")
   return loaded[name]
end

local function tokens(count, step)
   local list = {}
   for i = 1, count do list[i] = step * (i - 1) % 200 + 61 end
   return list
end

describe("cache_type", function()
   -- The weights are float32, so that only the cache causes differences. With packed weights, any small change also
   -- changes how the layers' inputs are rounded, which changes logits by a hundredth of their size.
   for name, most in pairs {qwen3 = {f16 = 1e-3, q8_0 = 1e-2}, gemma3 = {f16 = 1e-3, q8_0 = 2e-2},
         mixed = {f16 = 1e-3, q8_0 = 2e-2}} do
      it("changes logits by little more than the rounding: " .. name, function()
         local expected = load(name, {dtype = "float32"}):logits(tokens(60, 7))
         for kind, tolerance in pairs(most) do
            local model = load(name, {dtype = "float32", cache_type = kind, n_batch = 16})
            local got = model:logits(tokens(60, 7))
            local error = ((got - expected):abs():max() / expected:abs():max()):item()
            assert.is_true(error > 0 and error < tolerance, ("%s: %g"):format(kind, error))
         end
      end)
   end

   it("keeps each element within half a step of 1/127 of the largest of 32", function()
      local cache = require "tlua.text.models.rounded_caches".kinds.q8_0()
      local x = torch.randn(1, 2, 9, 64, {generator = torch.Generator "cpu":manual_seed(1), device = "cpu"})
      x[{1, 1, 3}]:zero_()
      x[{1, 2, 4}]:mul_(1e-9) -- these elements are smaller than the least scale
      cache:update(1, x:narrow(3, 1, 4), x:narrow(3, 1, 4) * 100)
      local key, value = cache:update(1, x:narrow(3, 5, 5), x:narrow(3, 5, 5) * 100)
      for factor, got in pairs {[1] = key, [100] = value} do
         local limit = x:unflatten(4, {-1, 32}):abs():amax(5, true):expand(1, 2, 9, 2, 32):flatten(4) * factor
         -- The bound is half a step of the quantization, plus the rounding error of the scale in float16.
         assert.is_true((got - x * factor):abs():le(limit * (0.5 / 127 + 1e-3) + 1e-5):all():item())
      end
      assert.equal("int8", cache.layers[1].buffers[1].dtype)
   end)

   it("gives the same text for the same tokens again, in batches and with sliding windows", function()
      local model = load("gemma3", {cache_type = "q8_0"})
      local text = model:generate(tokens(40, 7), {max_tokens = 12, temperature = 0})
      local batch = model:batch {n_parallel = 2}
      local a, b = batch:add(tokens(40, 7), {max_tokens = 12, temperature = 0}), batch:add("hello", {max_tokens = 3})
      batch:run()
      assert.equal(text, a.text)
      assert.is_nil(a.error or b.error)
   end)

   it("is independent of the dtype of weights", function()
      for _, dtype in ipairs {"float16", "bfloat16"} do
         local expected = load("qwen3", {dtype = dtype}):logits(tokens(40, 7))
         for _, kind in ipairs {"f16", "q8_0"} do
            local model, path = load("qwen3", {dtype = dtype, cache_type = kind}), os.tmpname()
            local got = model:logits(tokens(40, 7))
            assert.close(expected, got, 0.03 * expected:abs():max():item())
            assert.equal(40, model:save_state(path))
            assert.equal(40, model:load_state(path))
            os.remove(path)
         end
         local model, path = load("qwen3", {dtype = dtype}), os.tmpname()
         model:logits(tokens(40, 7))
         model:save_state(path)
         assert.equal(40, model:load_state(path))
         os.remove(path)
      end
   end)

   it("refuses unknown names, and heads that q8_0 cannot divide", function()
      assert.raises('llm.load: cache_type: expected "f32", "f16" or "q8_0", got "q4_0"',
         function() load("qwen3", {cache_type = "q4_0"}) end)
      assert.raises("cache_type: q8_0 needs heads of a multiple of 32 features, and the model's have 16",
         function() load("llama", {cache_type = "q8_0"}) end)
   end)
end)

describe("llm.Model.save_state", function()
   local path
   before_each(function() path = os.tmpname() end)
   after_each(function() os.remove(path) end)

   for name, options in pairs {qwen3 = {cache_type = "q8_0"}, gemma3 = {}, llama = {cache_type = "f32"}} do
      it("lets another program continue the text without computing it again: " .. name, function()
         local first, second = load(name, options), load(name, options)
         local prompt = tokens(50, 7)
         first:generate(prompt, {max_tokens = 4, temperature = 0})
         assert.equal(53, first:save_state(path))
         assert.equal(53, second:load_state(path))
         local computed = 0
         second.model.model.layers[1]:register_forward_pre_hook(function(_, x)
            computed = computed + (torch.is_tensor(x) and x or x[1]):size(2)
         end)
         local longer = table.move(first.scheduler.slots[1].tokens, 1, 53, 1, {})
         longer[54], longer[55] = 90, 95
         local expected = first:generate(longer, {max_tokens = 8, temperature = 0})
         assert.equal(expected, second:generate(longer, {max_tokens = 8, temperature = 0}))
         assert.is_true(computed < 12, computed)
      end)
   end

   it("names the file and the difference, and leaves the model as it is", function()
      local model = load("llama", {})
      assert.raises("llm.Model.save_state: expected a text that was computed, got none",
         function() load("llama", {}):save_state(path) end)
      model:generate(tokens(20, 7), {max_tokens = 2})
      model:save_state(path)
      local function refuses(other, said)
         local before = other.scheduler.slots[1].tokens
         assert.raises(said, function() other:load_state(path) end)
         assert.is_true(rawequal(before, other.scheduler.slots[1].tokens))
      end
      local where = "llm.Model.load_state: " .. path .. ": "
      refuses(load("qwen2", {}), where .. 'the architecture: expected "qwen2", the model\'s, got "llama"')
      refuses(load("linear", {}), where .. "the hash of the model's file: expected ")
      refuses(load("llama", {cache_type = "f32"}), where .. 'cache_type: expected "f32", the model\'s, got "f16"')
      refuses(load("llama", {n_ctx = 8}), where .. "tokens: expected 1 to n_ctx = 8 tokens, got 21")
      local tuned = load("llama", {})
      tuned:load_lora(folder .. "adapter.gguf")
      refuses(tuned, where .. 'the LoRA adapters: expected ')
      assert.raises("llm.Model.load_state: nothing.state: No such file",
         function() model:load_state "nothing.state" end)
      torch.save({a = torch.ones(2)}, path, {})
      refuses(model, where .. 'the kind of file: expected "tlua.llm.state", the model\'s, got nothing')
      shell.write(path, "GGUF and something else")
      refuses(model, where)
      shell.write(path, "")
      refuses(model, where)
      assert.raises("llm.Model.save_state: /nowhere/x: ", function() model:save_state "/nowhere/x" end)
   end)

   it("refuses damaged files, and never crashes", function()
      local model, other = load("gemma3", {}), load("gemma3", {})
      model:generate(tokens(30, 7), {max_tokens = 1})
      model:save_state(path)
      local text = shell.read(path)
      local generator = torch.Generator():manual_seed(7)
      local function below(n) return torch.randint(0, n, {1}, {generator = generator}):item() end
      local head = string.unpack("<i8", text) + 8
      for i = 1, tonumber(os.getenv "SPEC_MUTATIONS") or 80 do
         local at = below(i % 2 == 0 and head or #text) + 1
         local byte = (text:byte(at) + 1 + below(255)) % 256
         local new = text:sub(1, at - 1) .. string.char(byte) .. text:sub(at + 1)
         if below(4) == 0 then new = new:sub(1, below(#new)) end
         shell.write(path, new)
         local ok, message = pcall(other.load_state, other, path)
         if ok then
            -- A corrupted file must be refused, with one exception: if the changed byte turns a space of the header
            -- into another kind of white space, the file is still valid.
            assert.is_true(at <= head, at)
         else
            assert.truthy(tostring(message):find(path, 1, true), message)
         end
      end
   end)
end)

describe("drafts", function()
   local prompt = {}
   for i = 1, 30 do prompt[i] = 7 * (i - 1) % 50 + 61 end

   for _, name in ipairs {"llama", "qwen2", "gemma3", "mixed"} do
      it("give the same greedy tokens as without: " .. name, function()
         local model = load(name)
         for _, more in ipairs {{}, {repeat_penalty = 1.2}, {grammar = 'root ::= ("hello" | "the world")+'},
               {stop = "h"}} do
            local options = {max_tokens = 30, temperature = 0}
            for key, value in pairs(more) do options[key] = value end
            local expected, reason = model:generate(prompt, options)
            for _, draft in ipairs {"prompt_lookup", model, load(name == "llama" and "linear" or name)} do
               for _, count in ipairs {1, 8} do
                  options.draft_model, options.num_pred_tokens = draft, count
                  local text, why = model:generate(prompt, options)
                  assert.equal(expected, text)
                  assert.equal(reason, why)
               end
            end
         end
      end)
   end

   it("need fewer steps if their tokens are right, and share a batch with other texts", function()
      local model = load "qwen2"
      local expected = model:generate(prompt, {max_tokens = 36, temperature = 0})
      local batch = model:batch {n_parallel = 2}
      local fast = batch:add(prompt, {max_tokens = 36, temperature = 0, draft_model = model})
      local plain = batch:add(prompt, {max_tokens = 36, temperature = 0})
      local steps = 0
      while not fast.finish_reason do
         batch:step()
         steps = steps + 1
      end
      batch:run()
      assert.equal(4, steps) -- each step of the model returns up to 9 tokens: 8 proposed tokens and one more
      assert.equal(expected, fast.text)
      assert.equal(expected, plain.text)
      assert.equal(32, fast.accepted_tokens)
      assert.equal(32, fast.drafted_tokens)
      assert.equal(0, plain.drafted_tokens)
   end)

   -- Returns Pearson's chi-square statistic for counts with the expected probabilities p.
   local function chi_square(counts, p, total)
      local sum = 0
      for i, probability in ipairs(p) do
         local mean = probability * total
         sum = sum + ((counts[i] or 0) - mean) ^ 2 / mean
      end
      return sum
   end

   it("leave the distribution of a token as it is", function()
      local p = {ids = {1, 2, 3, 4}, p = {0.4, 0.3, 0.2, 0.1}}
      local all = {all = torch.tensor({0.4, 0.3, 0.2, 0.1, 0.0}, {device = "cpu"})}
      local q = {ids = {2, 5, 1, 4}, p = {0.5, 0.2, 0.2, 0.1}}
      local q_all = {all = torch.tensor({0.2, 0.5, 0.0, 0.1, 0.2}, {device = "cpu"})}
      local sampler = sampling.sampler {seed = 11}
      for _, pair in ipairs {{p, q}, {all, q_all}, {p, q_all}, {all, q}, {p}, {all}} do
         local counts, accepted, n = {}, 0, 4000
         for _ = 1, n do
            local x = pair[2] and sampler:draw(pair[2]) or 2
            local token, is_accepted = sampler:verify(pair[1], x, pair[2])
            counts[token] = (counts[token] or 0) + 1
            accepted = accepted + (is_accepted and 1 or 0)
         end
         -- with three degrees of freedom, 16.3 is exceeded with a probability of 0.001
         assert.is_true(chi_square(counts, p.p, n) < 16.3)
         assert.is_nil(counts[5])
         -- the acceptance rate is the sum of min(p, q), which is 0.2 + 0.3 + 0.1, or p(2)
         assert.close(pair[2] and 0.6 or 0.3, accepted / n, 0.03)
      end
   end)

   it("leave the distribution of sampled texts as it is", function()
      local model, other = load "llama", load "linear"
      local options = {max_tokens = 2, temperature = 2.0, top_k = 3, top_p = 1.0, min_p = 0.0,
         logit_bias = {[model.tokenizer.eos] = -1e9}}
      -- Returns the exact probabilities of the nine texts that have two tokens.
      local function distribution(list)
         local all = {}
         for name, value in pairs(sampling.defaults) do all[name] = value end
         for name, value in pairs(options) do all[name] = value end
         return sampling.sampler(all):distribution(model:logits(list)[-1], list)
      end
      local p, index = {}, {}
      local first = distribution(prompt)
      for i, token in ipairs(first.ids) do
         if not first.p[i] then break end
         local list = table.move(prompt, 1, #prompt, 1, {})
         list[#list + 1] = token
         local second = distribution(list)
         for k in ipairs(second.p) do
            p[#p + 1] = first.p[i] * second.p[k]
            index[token .. " " .. second.ids[k]] = #p
         end
      end
      assert.equal(9, #p)
      for _, draft in ipairs {other, "prompt_lookup"} do
         local counts, n = {}, 600
         local batch = model:batch {n_parallel = 1}
         for seed = 1, n do
            options.seed, options.draft_model = 1000 * seed, draft
            local got = batch:add(prompt, options)
            batch:run()
            local at = index[got.tokens[31] .. " " .. got.tokens[32]]
            assert.truthy(at)
            counts[at] = (counts[at] or 0) + 1
         end
         -- with eight degrees of freedom, 26.1 is exceeded with a probability of 0.001
         assert.is_true(chi_square(counts, p, n) < 26.1, chi_square(counts, p, n))
      end
   end)

   it("refuse other tokens and wrong numbers", function()
      local model = load "llama"
      assert.raises("draft_model: expected a model with the same tokens", function()
         model:generate("hello", {draft_model = load "qwen2"})
      end)
      assert.raises('llm.Model.generate: draft_model: expected an llm.Model, or "prompt_lookup", got "x"',
         function() model:generate("hello", {draft_model = "x"}) end)
      assert.raises("num_pred_tokens: expected a positive integer, got 0",
         function() model:generate("hello", {draft_model = model, num_pred_tokens = 0}) end)
   end)
end)

describe("llm.Model.perplexity", function()
   it("is the number of tokens if all are equally likely", function()
      local model = load("llama", {dtype = "float32"})
      model.model.lm_head.weight:zero_()
      local value, uncertainty, count = model:perplexity(tokens(100, 7), {n_ctx = 32})
      assert.close(328, value, 1e-3)
      assert.close(0, uncertainty, 1e-3)
      assert.equal(3 * 15, count)
   end)

   it("is the exponential of the mean loss in the second halves of the chunks", function()
      local model = load "qwen2"
      local list, n = tokens(70, 11), 32
      local losses = {}
      for begin = 1, 33, 32 do
         local chunk = table.move(list, begin, begin + n - 1, 1, {})
         local logits = model:logits(chunk):double()
         for i = n // 2 + 1, n - 1 do
            losses[#losses + 1] = logits[i]:logsumexp(1):item() - logits[{i, chunk[i + 1]}]:item()
         end
      end
      local sum, squares = 0, 0
      for _, loss in ipairs(losses) do sum, squares = sum + loss, squares + loss ^ 2 end
      local mean = sum / #losses
      local value, uncertainty, count = model:perplexity(list, {n_ctx = n})
      assert.equal(30, count)
      assert.close(math.exp(mean), value, 1e-3 * value)
      local spread = math.sqrt((squares / #losses - mean ^ 2) / (#losses - 1))
      assert.close(spread * value, uncertainty, 1e-2 * uncertainty)
   end)

   it("refuses texts that are too short, and chunks that are too long", function()
      local model = load "llama"
      assert.raises("llm.Model.perplexity: expected at least 2 * n_ctx = 512 tokens, got ",
         function() model:perplexity "hello" end)
      assert.raises("llm.Model.perplexity: n_ctx: expected 4 to 256, the model's limit, got 300",
         function() model:perplexity("hello", {n_ctx = 300}) end)
      assert.raises("text: expected a text, or a list of tokens", function() model:perplexity(3) end)
   end)
end)

describe("tlua chat", function()
   it("prints perplexities, loads and saves prompt caches, and takes drafts", function()
      shell.with_folder(function(place)
         local function chat(words)
            return shell.run(("%s chat %s%s.gguf %s 2>&1"):format(shell.quote(shell.tlua), folder, "qwen2",
               (words:gsub("PLACE", place))))
         end
         shell.write(place .. "/text", ("hello world and the hello 123 "):rep(20))
         local value, _, count = load "qwen2":perplexity(("hello world and the hello 123 "):rep(20), {n_ctx = 32})
         local said, status = chat "--perplexity PLACE/text --ctx 32"
         assert.equal(0, status)
         assert.matches(("perplexity %.4f +/- "):format(value), said, 1, true)
         assert.matches(("(%d tokens)"):format(count), said, 1, true)
         assert.matches("tlua chat: expected at least 2 * n_ctx", (chat "--perplexity PLACE/text --ctx 200"), 1, true)
         local common = "-p hello --max-tokens 5 --temperature 0"
         local expected = chat(common)
         assert.equal(expected, (chat(common .. " --draft prompt-lookup --prompt-cache PLACE/cache")))
         assert.equal(expected, (chat(common .. " --prompt-cache PLACE/cache")))
         said, status = chat(common .. " --prompt-cache PLACE/text")
         assert.not_equal(0, status)
         assert.matches("tlua chat: " .. place .. "/text: ", said, 1, true)
         assert.not_matches("traceback", said)
         said = chat("-p hello --draft " .. folder .. "llama.gguf")
         assert.matches("tlua chat: draft_model: expected a model with the same tokens", said, 1, true)
      end)
   end)
end)
