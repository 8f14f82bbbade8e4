-- Tests how torch.serve generates texts: several requests in one batch, clients that leave, and invalid requests.

local torch = require "tlua"
local json = torch.utils.json
local shell = require "spec.support.shell"
package.path = "rocks/serve/spec/?.lua;" .. package.path
local Client = require "client"
local models = require "models"
local serving = require "serving"

local describe = serving.guarded(describe, it, pending)
local serve, ready, pause, metric = serving.serve, serving.ready, serving.pause, serving.metric

describe("torch.serve's language models", function()
   local folder, server, port

   setup(function()
      folder = shell.ok("mktemp -d"):match "[^\n]+"
      models.language(folder)
      -- The vocabulary of this model is larger than its tokenizer's vocabulary.
      local tokenizer = torch.text.Tokenizer.from_pretrained(folder .. "/tiny/1")
      torch.manual_seed(4)
      local config = {model_type = "gpt2", vocab_size = tokenizer.vocab_size + 100, n_embd = 32, n_layer = 2,
         n_head = 4, n_positions = 64, eos_token_id = 0, bos_token_id = 0}
      assert(torch.io.make_folder(folder .. "/large/1"))
      local model = torch.text.from_config(config):eval()
      torch.no_grad(function() -- this makes greedy search prefer the tokens that the tokenizer lacks
         model.transformer.ln_f.bias:fill_(1)
         model.transformer.wte.weight:narrow(1, tokenizer.vocab_size + 1, 100):fill_(5)
      end)
      model:save_pretrained(folder .. "/large/1")
      tokenizer:save_pretrained(folder .. "/large/1")
      -- One weight of this model is NaN.
      config.vocab_size = tokenizer.vocab_size
      model = torch.text.from_config(config):eval()
      torch.no_grad(function() model.transformer.h[2].mlp.c_fc.weight:fill_(0 / 0) end)
      assert(torch.io.make_folder(folder .. "/broken/1"))
      model:save_pretrained(folder .. "/broken/1")
      tokenizer:save_pretrained(folder .. "/broken/1")
      for _, name in ipairs {"llama", "gemma3", "qwen3"} do
         assert(torch.io.make_folder(folder .. "/" .. name .. "/1"))
         shell.ok(("cp rocks/llm/spec/fixtures/%s.gguf %s/%s/1/model.gguf"):format(name, folder, name))
      end
      shell.write(folder .. "/gemma3/config.json", '{"max_batch_size": 3}')
      shell.write(folder .. "/qwen3/config.json", '{"cache_type": "q8_0"}')
      server = ready(serve(folder))
      port = server.port
   end)

   teardown(function()
      server:stop()
      shell.ok("rm -rf " .. shell.quote(folder))
   end)

   local function body_of(model, i, more)
      local body = {model = model, prompt = ("lower the low "):sub(1, i % 7 + 1) .. i, max_tokens = 10 + i % 5 * 6,
         temperature = 0}
      for name, value in pairs(more or {}) do body[name] = value end
      return json.encode(body)
   end

   local function ask(body)
      if type(body) == "table" then body = json.encode(body) end
      local status, text = Client.once(port, "POST", "/v1/completions", body)
      return status, json.decode(text), text
   end

   for _, model in ipairs {"llama", "gemma3", "qwen3", "tiny", "large"} do
      it("gives concurrent requests the texts that they get alone, in fewer runs: " .. model, function()
         local runs = ('tlua_inference_runs_total{model="%s",version="1"}'):format(model)
         local expected, clients = {}, {}
         local before = metric(port, runs)
         for i = 1, 9 do
            local status, answer, text = ask(body_of(model, i))
            assert.equal(200, status, text)
            expected[i] = answer.choices[1]
         end
         local alone = metric(port, runs) - before
         for i = 1, 9 do clients[i] = Client.new(port) end
         for i = 1, 9 do clients[i]:start("POST", "/v1/completions", body_of(model, i)) end
         for i = 1, 9 do
            local status, text = clients[i]:answer()
            assert.equal(200, status, text)
            local choice = json.decode(text).choices[1]
            assert.equal(expected[i].text, choice.text)
            assert.equal(expected[i].finish_reason, choice.finish_reason)
            clients[i]:close()
         end
         local together = metric(port, runs) - before - alone
         assert.is_true(together < alone, ("%d runs, %d alone"):format(together, alone))
      end)
   end

   it("continues the other texts when a client leaves in the middle", function()
      local expected = {}
      for i = 1, 4 do expected[i] = select(2, ask(body_of("llama", i, {max_tokens = 60}))).choices[1].text end
      local leaving, staying = {}, {}
      for i = 1, 4 do
         leaving[i], staying[i] = Client.new(port), Client.new(port)
         leaving[i]:start("POST", "/v1/completions", body_of("llama", i, {stream = i % 2 == 0, max_tokens = 200,
            logit_bias = {["2"] = -1e6}}))
         staying[i]:start("POST", "/v1/completions", body_of("llama", i, {max_tokens = 60}))
      end
      for i = 1, 4 do
         pause(0.02)
         leaving[i]:close()
      end
      for i = 1, 4 do
         local status, text = staying[i]:answer()
         assert.equal(200, status, text)
         assert.equal(expected[i], json.decode(text).choices[1].text)
         staying[i]:close()
      end
   end)

   it("answers more texts of a request than there is room for in a batch", function()
      local prompts = json.as_array {"the", "low", "lower", "lowest", "the low"}
      local status, answer = ask {model = "gemma3", prompt = prompts, max_tokens = 7, temperature = 0, n = 2}
      assert.equal(200, status)
      assert.equal(10, #answer.choices)
      for i, choice in ipairs(answer.choices) do
         assert.equal(i - 1, choice.index)
         local _, alone = ask {model = "gemma3", prompt = prompts[(i + 1) // 2], max_tokens = 7, temperature = 0}
         assert.equal(alone.choices[1].text, choice.text)
      end
   end)

   it("answers a small request while a large one fills the batch, and ends late ones", function()
      local large, small <close> = Client.new(port), Client.new(port)
      local prompts = {}
      for i = 1, 60 do prompts[i] = "the low " .. i end
      large:start("POST", "/v1/completions", json.encode {model = "gemma3", prompt = json.as_array(prompts),
         max_tokens = 40, temperature = 0, logit_bias = {["2"] = -1e6}, stream = true})
      assert.is_true(#large.socket:take(10) > 0) -- this call waits until the first text has begun
      local status, text = small:ask("POST", "/v1/completions", body_of("gemma3", 3, {max_tokens = 5}))
      assert.equal(200, status, text)
      large:close()
      local body = json.encode {model = "gemma3", n = 16, prompt = json.as_array(prompts), max_tokens = 200,
         logit_bias = {["2"] = -1e6}}
      status, text = Client.once(port, "POST", "/v1/completions", body, {["X-Request-Timeout"] = "0.2"})
      assert.equal(504, status, text)
      assert.equal(200, (ask(body_of("gemma3", 3))))
   end)

   it("reuses the keys and values of an earlier prompt with the same beginning", function()
      local text = ("the low lower "):rep(8)
      local _, first = ask {model = "llama", prompt = text, max_tokens = 2, temperature = 0}
      local _, second = ask {model = "llama", prompt = text .. "the", max_tokens = 2, temperature = 0}
      assert.is_true(first.usage.prompt_tokens_details.cached_tokens < 5)
      assert.is_true(second.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens // 2)
   end)

   it("answers in UTF-8, whatever bytes the prompt and the text have", function()
      -- Token 3 + b is the byte b. The prompt ends with the byte `first`, which begins a character or, for 0xff, is
      -- never valid. The bias makes the model answer with the byte `rest` five times.
      for first, rest in pairs {[0xc3] = 0xa9, [0xe2] = 0x82, [0xff] = 0x78} do
         local status, answer, text = ask {model = "llama", prompt = json.as_array {60, 3 + first}, max_tokens = 5,
            logit_bias = {[tostring(3 + rest)] = 1000}}
         assert.equal(200, status, text)
         assert.truthy(utf8.len(text))
         assert.equal(5, answer.usage.completion_tokens)
      end
      for seed = 1, 12 do
         local options = {model = "llama", prompt = json.as_array {60 + seed, 3 + 0xe0 + seed}, max_tokens = 60,
            temperature = 10, seed = seed, logit_bias = {["2"] = -1e6}}
         local status, answer, text = ask(options)
         assert.equal(200, status, text)
         assert.truthy(utf8.len(text))
         options.stream = true
         local _, events = Client.once(port, "POST", "/v1/completions", json.encode(options))
         local parts = {}
         for event in events:gmatch "data: ({[^\n]*})\n\n" do
            parts[#parts + 1] = json.decode(event).choices[1].text
         end
         assert.equal(answer.choices[1].text, table.concat(parts))
      end
   end)

   it("refuses wrong biases, and tokens that the model or its tokenizer lacks", function()
      local object <const> = "expected an object"
      for bias, said in pairs {['[1,2]'] = object, ['[]'] = object, ['3'] = object,
            ['{"5":1e999}'] = "expected numbers from -1e9 to 1e9, got inf for token 5",
            ['{"5":"x"}'] = 'got "x" for token 5',
            ['{"5":[1]}'] = "got a list for token 5", ['{"-1":1}'] = "got -1", ['{"x":1}'] = "got x",
            ['{"100000":1}'] = "got 100000"} do
         local status, answer = ask(('{"model":"llama","prompt":"a","max_tokens":1,"logit_bias":%s}'):format(bias))
         assert.equal(400, status, bias)
         assert.matches("logit_bias: ", answer.error.message, 1, true)
         assert.matches(said, answer.error.message, 1, true)
      end
      local status, answer, text = ask {model = "large", prompt = "the low", max_tokens = 12}
      assert.equal(200, status, text)
      assert.equal(12, answer.usage.completion_tokens)
      status, answer = ask {model = "large", prompt = json.as_array {5, 390}, max_tokens = 2}
      assert.equal(400, status)
      assert.matches("prompt: expected tokens from 0 to", answer.error.message, 1, true)
      for _, prompt in ipairs {"", json.as_array {}, ("low "):rep(200)} do
         assert.equal(400, (ask {model = "large", prompt = prompt, max_tokens = 2}))
      end
   end)

   it("says which value of a request came, and what was expected", function()
      for fields, expected in pairs {
         ['"prompt":"a","stream":1'] = "stream: expected true or false, got 1",
         ['"prompt":"a","temperature":"hot"'] = 'temperature: expected a number from 0 to 10, got "hot"',
         ['"prompt":"a","n":1.5'] = "n: expected an integer, got 1.5",
         ['"prompt":"a","stop":7'] = "stop: expected a text or up to 16 texts, got 7",
         ['"prompt":"a","stop":[""]'] = 'stop: expected texts that are not empty, got ""',
         ['"prompt":"a","stop":{"a":"b"}'] = "stop: expected a text or up to 16 texts, got an object",
         ['"prompt":"a","max_tokens":-1'] = "max_tokens: expected a number from 0 to 1048576, got -1",
         ['"prompt":"a","response_format":"json"'] = 'response_format: expected an object, got "json"',
         ['"prompt":"a","response_format":{"type":"xml"}'] =
            'response_format: expected the type "text", "json_object" or "json_schema", got "xml"',
         ['"prompt":"a","response_format":{"type":"json_schema"}'] =
            "response_format: expected an object json_schema, got nothing",
         ['"prompt":"a","response_format":{"type":"json_object","schema":{"type":"nothing"}}'] =
            "response_format: schema: type: expected object, array",
         ['"prompt":"a","grammar":"x ::= a"'] = "grammar: expected a rule named root",
         ['"prompt":"a","grammar":7'] = "grammar: expected GBNF, got 7",
         ['"prompt":"a","logprobs":21'] = "logprobs: expected a number from 0 to 20, got 21",
         ['"prompt":"a","logprobs":1,"echo":1'] = "echo: expected true or false, got 1",
         ['"prompt":["a",true]'] = "prompt: expected texts or lists of tokens, got true",
         ['"prompt":[-1]'] = "prompt: expected tokens from 0 to",
         ['"prompt":[]'] = "prompt: expected a text or a list, got an empty list",
         ['"prompt":{}'] = "prompt: expected a text or a list, got an object",
      } do
         local status, answer = ask(('{"model":"llama",%s}'):format(fields))
         assert.equal(400, status, fields)
         assert.matches(expected, answer.error.message, 1, true)
      end
   end)

   it("answers with the model's probabilities, and with texts that obey a grammar", function()
      local llm = torch.llm.load("rocks/llm/spec/fixtures/llama.gguf", {cache_type = "f32"})
      local tokens = llm:tokenize "the low"
      local expected = llm:logits(tokens)[-1]:log_softmax(1)
      -- The bias is so large that it determines the next token.
      for token, bias in pairs {["70"] = 1000, ["75"] = 1000} do
         local status, answer = ask {model = "llama", prompt = "the low", max_tokens = 1, temperature = 2,
            logprobs = 2, seed = 1, logit_bias = {[token] = bias}}
         assert.equal(200, status)
         local got = answer.choices[1].logprobs
         assert.same({0}, {table.unpack(got.text_offset)})
         local values = {}
         for _, value in pairs(got.top_logprobs[1]) do values[#values + 1] = value end
         table.sort(values, function(a, b) return a > b end)
         assert.is_true(math.abs(expected:max():item() - values[1]) < 1e-4)
         assert.is_true(math.abs(expected[token + 1]:item() - got.token_logprobs[1]) < 1e-4)
         assert.equal(llm.tokenizer:piece(token + 1), got.tokens[1])
      end
      -- The model `llama` has the tokenizer of a GGUF file, and `tiny` has a tokenizer of Hugging Face.
      for _, model in ipairs {"llama", "tiny"} do
         local status, answer = ask {model = model, prompt = "the low", max_tokens = 40, seed = 2,
            grammar = 'root ::= "ü" ("yes" | "no") "!"{2}'}
         assert.equal(200, status)
         assert.matches("^üyes!!$", answer.choices[1].text:gsub("no", "yes"))
         assert.equal("stop", answer.choices[1].finish_reason)
      end
   end)

   -- Concatenates the parts of a stream's choices.
   local function joined(reply)
      local choices = {}
      for line in reply:gmatch "data: ({[^\n]+)" do
         for _, part in ipairs(json.decode(line).choices) do
            local whole = choices[part.index + 1] or {text = "", logprobs = {}}
            choices[part.index + 1] = whole
            whole.text, whole.finish_reason = whole.text .. part.text, part.finish_reason
            for name, list in pairs(part.logprobs ~= json.null and part.logprobs or {}) do
               local own = whole.logprobs[name] or {}
               whole.logprobs[name] = table.move(list, 1, #list, #own + 1, own)
            end
         end
      end
      return choices
   end

   it("describes the tokens of a prompt that the answer repeats", function()
      local llm = torch.llm.load("rocks/llm/spec/fixtures/llama.gguf", {cache_type = "f32"})
      local tokens = llm:tokenize "hello the low, world"
      local expected, prompt = llm:logits(tokens):log_softmax(2), {}
      for i, token in ipairs(tokens) do prompt[i] = token - 1 end
      for _, stream in ipairs {false, true} do
         for new = 0, 2, 2 do
            local body = {model = "llama", prompt = json.as_array(prompt), max_tokens = new, echo = true, logprobs = 2,
               n = 2, temperature = 0, stream = stream or nil, logit_bias = {["70"] = 1000}}
            local status, reply = Client.once(port, "POST", "/v1/completions", json.encode(body))
            assert.equal(200, status)
            local choices = stream and joined(reply) or json.decode(reply).choices
            for i = 1, 2 do
               local choice = choices[i]
               local got, text = choice.logprobs, ""
               assert.equal(#tokens + new, #got.tokens)
               assert.equal(json.null, got.token_logprobs[1])
               assert.equal(json.null, got.top_logprobs[1])
               for k = 2, #tokens do
                  assert.is_true(math.abs(expected[k - 1][tokens[k]]:item() - got.token_logprobs[k]) < 1e-4)
                  local best = -math.huge
                  for _, value in pairs(got.top_logprobs[k]) do best = math.max(best, value) end
                  assert.is_true(math.abs(expected[k - 1]:max():item() - best) < 1e-4)
               end
               for k, token in ipairs(got.tokens) do
                  assert.equal(utf8.len(text), got.text_offset[k])
                  -- the answer's text does not begin with the space that the tokenizer adds
                  text = (text .. token):gsub("^ ", "")
               end
               assert.equal(text, choice.text)
               assert.equal("length", choice.finish_reason)
            end
         end
      end
      local _, answer = ask {model = "llama", prompt = "low", max_tokens = 0}
      assert.equal("", answer.choices[1].text)
      assert.equal(0, answer.usage.completion_tokens)
   end)

   it("generates the same greedy text with drafts, in fewer runs", function()
      shell.with_folder(function(place)
         for name, draft in pairs {plain = false, lookup = '"prompt_lookup"', model = '"draft.gguf"'} do
            assert(torch.io.make_folder(("%s/%s/1"):format(place, name)))
            for _, file in ipairs {"model", "draft"} do
               shell.ok(("cp rocks/llm/spec/fixtures/llama.gguf %s/%s/1/%s.gguf"):format(place, name, file))
            end
            if draft then
               shell.write(("%s/%s/config.json"):format(place, name), ('{"draft_model": %s}'):format(draft))
            end
         end
         local other <close> = ready(serve(place))
         local texts, runs = {}, {}
         for _, name in ipairs {"plain", "lookup", "model"} do
            local _, text = Client.once(other.port, "POST", "/v1/completions", json.encode {model = name,
               prompt = "low low low low", max_tokens = 60, temperature = 0, logit_bias = {["2"] = -100}})
            texts[name] = json.decode(text).choices[1].text
            runs[name] = metric(other.port, ('tlua_inference_runs_total{model="%s",version="1"}'):format(name))
         end
         assert.equal(texts.plain, texts.lookup)
         assert.equal(texts.plain, texts.model)
         assert.is_true(runs.model < runs.plain / 2, runs.model .. " of " .. runs.plain)
      end)
      shell.with_folder(function(place)
         shell.ok(("cp rocks/llm/spec/fixtures/llama.gguf %s/a.gguf && cp rocks/llm/spec/fixtures/qwen2.gguf "
            .. "%s/b.gguf"):format(place, place))
         local other <close> = serve(place .. "/a.gguf", {draft_model = "b.gguf"})
         local last, reason = torch.io.clock() + 60
         repeat
            local _, index = Client.once(other.port, "POST", "/v2/repository/index", "")
            reason = json.decode(index)[1].reason
         until reason ~= "" or torch.io.clock() > last
         assert.matches("draft_model: expected a model with the same tokens", reason, 1, true)
      end)
   end)

   it("reports a model whose logits are NaN, and answers the next request", function()
      for _, temperature in ipairs {0, 1} do
         local status, answer = ask {model = "broken", prompt = "the low", max_tokens = 3, temperature = temperature}
         assert.equal(500, status)
         assert.matches("the logits are NaN", answer.error.message, 1, true)
      end
      assert.equal(200, (ask(body_of("llama", 3))))
   end)
end)
