-- Tests torch.serve's protocols with requests that were recorded from tritonclient and openai (compare_*.py), and with
-- malformed requests.

local torch = require "tlua"
local json = torch.utils.json
local shell = require "spec.support.shell"
package.path = "rocks/serve/spec/?.lua;" .. package.path
local Client = require "client"
local models = require "models"
local serving = require "serving"

local describe = serving.guarded(describe, it, pending)
local serve, ready, infer, input = serving.serve, serving.ready, serving.infer, serving.input
local pause, metric, recorded = serving.pause, serving.metric, serving.recorded
local with_folder = shell.with_folder

describe("torch.serve", function()
   local folder, server, port

   setup(function()
      folder = shell.ok("mktemp -d"):match "[^\n]+"
      models.programs(folder)
      models.language(folder)
      server = ready(serve(folder))
      port = server.port
   end)

   teardown(function()
      server:stop()
      shell.ok("rm -rf " .. shell.quote(folder))
   end)

   it("answers tritonclient's requests with the recorded statuses", function()
      local list = recorded "tritonclient"
      assert.is_true(#list > 30)
      local client <close> = Client.new(port)
      for _, entry in ipairs(list) do
         local status = client:ask(entry.method, entry.path, entry.body, entry.headers)
         assert.equal(entry.status, status, entry.name)
      end
      assert.is_true(Client.wait(port))
   end)

   it("answers tritonclient's requests with sums, in JSON and in binary tensors", function()
      local _, by_name = recorded "tritonclient"
      -- These are a + b and a - b of compare_triton.py, which NumPy has computed in float32.
      local sum = {5, 7, 9.5, 7, 1e20, 9}
      local diff = {-3, -3, -2.5, -7.000999927520752, 1e20, -9}
      sum[4] = 6.999000072479248
      for _, sent in ipairs {"True", "False"} do
         for _, wanted in ipairs {"True", "False"} do
            local entry = by_name[("addsub in %s out %s"):format(sent, wanted)]
            local status, body, headers = Client.once(port, entry.method, entry.path, entry.body, entry.headers)
            assert.equal(200, status)
            local head = headers["inference-header-content-length"]
            assert.equal(wanted == "True", head ~= nil)
            local value = assert(json.decode(head and body:sub(1, tonumber(head)) or body))
            assert.equal("q7", value.id)
            local rest = head and body:sub(tonumber(head) + 1) or ""
            for i, expected in ipairs {diff, sum} do
               assert.equal(({"diff", "sum"})[i], value.outputs[i].name)
               assert.same({2, 3}, {table.unpack(value.outputs[i].shape)})
               for k = 1, 6 do
                  local x = head and ("<f"):unpack(rest, (i - 1) * 24 + (k - 1) * 4 + 1) or value.outputs[i].data[k]
                  assert.is_true(math.abs(x - expected[k]) <= 1e-6 * math.abs(expected[k]), k .. ": " .. x)
               end
            end
         end
      end
   end)

   it("returns the extreme numbers of each datatype unchanged", function()
      local _, by_name = recorded "tritonclient"
      for _, binary in ipairs {"True", "False"} do
         local entry = by_name["kinds binary " .. binary]
         local status, body, headers = Client.once(port, entry.method, entry.path, entry.body, entry.headers)
         assert.equal(200, status)
         local value = json.decode(body:sub(1, tonumber(headers["inference-header-content-length"])))
         local exact = {int64 = {math.mininteger, 9007199254740993, math.maxinteger}, uint8 = {0, 128, 255},
            int8 = {-128, 0, 127}, float64 = {0.1, -1e300, 5e-324}, bool = {true, false, true}}
         for _, output in ipairs(value.outputs) do
            if output.data and exact[output.name] then
               assert.same(exact[output.name], {table.unpack(output.data)})
            end
         end
         if binary == "True" then
            local head = tonumber(entry.headers["Inference-Header-Content-Length"])
            local answered = tonumber(headers["inference-header-content-length"])
            -- The request names its outputs in the order of the inputs, so the answer repeats the bytes in the same
            -- order.
            assert.equal(entry.body:sub(head + 1), body:sub(answered + 1))
         end
      end
   end)

   it("answers openai's requests as recorded, with the tokens that the model generates", function()
      local list, by_name = recorded "openai"
      for _, entry in ipairs(list) do
         local status, text = Client.once(port, entry.method, entry.path, entry.body, entry.headers)
         assert.equal(entry.status, status, entry.name .. ": " .. text)
      end
      local path = folder .. "/tiny/1"
      local model, tokenizer = torch.text.from_pretrained(path):eval(), torch.text.Tokenizer.from_pretrained(path)
      local body = json.decode(by_name.chat.body)
      local prompt = tokenizer:apply_chat_template(body.messages, {add_generation_prompt = true}).input_ids
      local ids = model:generate(torch.tensor {prompt}, {max_new_tokens = 12})[1]:tolist()
      local new = {table.unpack(ids, #prompt + 1)}
      local status, text = Client.once(port, "POST", "/v1/chat/completions", by_name.chat.body)
      assert.equal(200, status)
      local answer = json.decode(text)
      local content = answer.choices[1].message.content
      assert.equal(tokenizer:decode(new), content)
      assert.equal(#prompt, answer.usage.prompt_tokens)
      local client <close> = Client.new(port)
      local _, events, headers = client:ask("POST", "/v1/chat/completions", by_name["chat stream"].body)
      assert.equal("text/event-stream", headers["content-type"])
      local streamed, last = {}, nil
      for event in events:gmatch "data: ([^\n]*)\n\n" do
         last = event
         local value = event ~= "[DONE]" and json.decode(event)
         if value and value.choices[1] then streamed[#streamed + 1] = value.choices[1].delta.content end
      end
      assert.equal("[DONE]", last)
      assert.equal(content, table.concat(streamed))
   end)

   it("generates with GGUF files as torch.llm does", function()
      with_folder(function(place)
         assert(torch.io.make_folder(place .. "/llama/1"))
         shell.ok(("cp rocks/llm/spec/fixtures/llama.gguf %s/llama/1/model.gguf"):format(place))
         local other = ready(serve(place))
         local llm = torch.llm.load "rocks/llm/spec/fixtures/llama.gguf"
         local expected = llm("the low", {max_tokens = 8, temperature = 0, repeat_penalty = 1})
         local status, text = Client.once(other.port, "POST", "/v1/completions",
            '{"model":"llama","prompt":"the low","max_tokens":8,"temperature":0}')
         assert.equal(200, status, text)
         local choice = json.decode(text).choices[1]
         assert.equal(expected.choices[1].text, choice.text)
         assert.equal(expected.choices[1].finish_reason, choice.finish_reason)
         status, text = Client.once(other.port, "POST", "/v1/embeddings", '{"model":"llama","input":"the low"}')
         assert.equal(200, status, text)
         local vector = torch.tensor({table.unpack(json.decode(text).data[1].embedding)})
         local mean = llm:embed("the low", {normalize = true})
         mean = torch.is_tensor(mean) and mean or torch.tensor(mean)
         assert.is_true((vector - mean:view(-1)):abs():max():item() < 1e-4)
         other:stop()
      end)
   end)

   it("embeds texts as the mean of the last states", function()
      local path = folder .. "/tiny/1"
      local model, tokenizer = torch.text.from_pretrained(path):eval(), torch.text.Tokenizer.from_pretrained(path)
      local ids = tokenizer:encode("lower").ids
      local states = model(torch.tensor {ids}, {output_hidden_states = true}).hidden_states
      local mean = states[#states][1]:mean(1)
      mean = mean / mean:norm()
      local _, text = Client.once(port, "POST", "/v1/embeddings", '{"model":"tiny","input":"lower"}')
      local got = torch.tensor({table.unpack(json.decode(text).data[1].embedding)})
      assert.is_true((got - mean):abs():max():item() < 1e-6)
   end)

   it("refuses malformed requests with a message that names the input", function()
      local good = {inputs = json.as_array {input("a", {1, 3}, {1, 2, 3}), input("b", {1, 3}, {1, 2, 3})}}
      local function bad(expected, change)
         local value = json.decode(json.encode(good))
         value = change(value) or value
         local status, body = infer(port, "addsub", value)
         assert.equal(400, status)
         assert.matches(expected, body.error, 1, true)
      end
      bad("the body is not JSON", function() return "{" end)
      bad("the body is not JSON", function() return "" end)
      bad("the body is not JSON: an array does not end", function() return '{"inputs":[{"data":[1,2' end)
      bad("the body: expected a JSON object", function() return "[1]" end)
      bad("inputs: expected a list", function() return "{}" end)
      bad("inputs: expected objects with a name, got 3", function(v) v.inputs[1] = 3 end)
      bad("inputs: expected objects with a name, got the name 5", function(v) v.inputs[1].name = 5 end)
      bad("the request: parameters: expected an object, got 7", function(v) v.parameters = 7 end)
      bad("parameters: timeout: expected microseconds, got -1", function(v) v.parameters = {timeout = -1} end)
      bad("input a: data: expected 3 numbers for the shape [1,3], got 2", function(v) v.inputs[1].data[3] = nil end)
      bad("input a: data: expected numbers of FP32, got \"\\\"x\\\"", function(v) v.inputs[1].data[2] = "x" end)
      bad("input a: data: expected numbers of FP32, got \"null", function(v) v.inputs[1].data[2] = json.null end)
      bad("input a: data: expected numbers of FP32", function(v) v.inputs[1].data[2] = 1e39 end)
      bad("expected data, or binary_data_size in parameters, got data that is no list", function(v)
         v.inputs[1].data = 1
      end)
      bad("input a: expected data, or binary_data_size in parameters, got neither", function(v)
         v.inputs[1].data = nil
      end)
      bad("input a: shape: expected sizes of at least 0, got -1", function(v) v.inputs[1].shape[1] = -1 end)
      bad("input a: shape: expected a list", function(v) v.inputs[1].shape = "3" end)
      bad("input a: the shape [1099511627776,1099511627776] is too large", function(v)
         v.inputs[1].shape = json.as_array {1 << 40, 1 << 40}
      end)
      bad("input a: shape: expected a list of sizes, got \"3\"", function(v) v.inputs[1].shape = "3" end)
      bad("input a: expected the datatype FP32, got an object", function(v) v.inputs[1].datatype = {} end)
      bad("the body: expected a JSON object, got null", function() return "null" end)
      bad("inputs: expected a list, got nothing", function() return "{}" end)
      bad("output sum: given twice", function(v)
         v.outputs = json.as_array {{name = "sum"}, {name = "sum"}}
      end)
      bad("input a: given twice", function(v) v.inputs[2].name = "a" end)
      bad("input a: expected data or binary_data_size, got both", function(v)
         v.inputs[1].parameters = {binary_data_size = 12}
      end)
      bad("input a: binary_data_size: expected 12", function(v)
         v.inputs[1].data, v.inputs[1].parameters = nil, {binary_data_size = 8}
      end)
      bad("expected 12 bytes of tensors after the JSON, got 0", function(v)
         v.inputs[1].data, v.inputs[1].parameters = nil, {binary_data_size = 12}
      end)
      bad("expected at most 32 examples", function(v)
         local ones = {}
         for i = 1, 99 do ones[i] = 1 end
         for i = 1, 2 do v.inputs[i] = input(i == 1 and "a" or "b", {33, 3}, ones) end
      end)
      bad("id: expected a string", function(v) v.id = 7 end)
      bad("outputs: expected a list, got an object", function(v) v.outputs = {} end)
      bad("outputs: expected objects with a name, got a list", function(v)
         v.outputs = json.as_array {json.as_array {}}
      end)
      bad("output sum: binary_data: expected true or false, got 1", function(v)
         v.outputs = json.as_array {{name = "sum", parameters = {binary_data = 1}}}
      end)
      assert.equal(200, (infer(port, "addsub", good)))
      local status, body = infer(port, "ints", good)
      assert.equal(404, status)
      assert.matches("unknown model: 'ints'", body.error, 1, true)
   end)

   it("refuses damaged binary tensors and gzip", function()
      local _, by_name = recorded "tritonclient"
      local entry = by_name["addsub in True out True"]
      local path = entry.path
      local head = tonumber(entry.headers["Inference-Header-Content-Length"])
      local function bad(expected, body, header, encoding)
         local status, text = Client.once(port, "POST", path, body,
            {["Inference-Header-Content-Length"] = header, ["Content-Encoding"] = encoding})
         assert.equal(400, status, text)
         assert.matches(expected, text, 1, true)
      end
      bad("expected 48 bytes of tensors after the JSON, got 47", entry.body:sub(1, -2), head)
      bad("expected 48 bytes of tensors after the JSON, got 49", entry.body .. "x", head)
      bad("the body is not JSON", entry.body, head - 1)
      for _, wrong in ipairs {"-1", "0", "x", "1e99", "99999999999"} do
         bad("Inference-Header-Content-Length: expected", entry.body, wrong)
      end
      bad("not gzip", "abc", nil, "gzip")
      bad("not gzip", ("x"):rep(100) .. "\0\1\0\0", nil, "gzip")
      assert.equal(415, (Client.once(port, "POST", path, "{}", {["Content-Encoding"] = "br"})))
   end)

   it("names a missing path or model, and the method that is expected", function()
      local function status(method, path, body) return (Client.once(port, method, path, body)) end
      assert.equal(404, status("GET", "/nothing"))
      assert.equal(404, status("GET", "/v2/nothing"))
      assert.equal(404, status("GET", "/v2/models/nothing"))
      assert.equal(404, status("GET", "/v2/models/mlp/versions/9"))
      assert.equal(400, status("GET", "/v2/models/mlp/versions/x"))
      assert.equal(405, status("GET", "/v2/models/mlp/infer"))
      assert.equal(405, status("DELETE", "/v2/models/mlp"))
      assert.equal(405, status("GET", "/v1/completions"))
      assert.equal(404, status("POST", "/v1/nothing", "{}"))
      assert.equal(200, status("HEAD", "/v2/health/live"))
      assert.equal(200, status("GET", "/"))
      assert.equal(400, status("POST", "/v2/models/tiny/infer", "{}"))
      assert.equal(400, status("POST", "/v1/completions", "{"))
      assert.equal(400, status("POST", "/v1/completions", '{"prompt": "a"}'))
   end)

   it("answers several requests in one run, each with its own rows", function()
      local before = metric(port, 'tlua_inference_runs_total{model="addsub",version="1"}')
      local clients, n = {}, 24
      for i = 1, n do
         clients[i] = Client.new(port)
         clients[i]:start("POST", "/v2/models/addsub/infer", json.encode {inputs = json.as_array {
            input("a", {i % 3 + 1, 3}, (function()
               local list = {}
               for k = 1, 3 * (i % 3 + 1) do list[k] = i * 100 + k end
               return list
            end)()), input("b", {i % 3 + 1, 3}, (function()
               local list = {}
               for k = 1, 3 * (i % 3 + 1) do list[k] = 0.5 end
               return list
            end)())}})
      end
      for i = 1, n do
         local status, body = clients[i]:answer()
         assert.equal(200, status)
         for _, output in ipairs(json.decode(body).outputs) do
            assert.same({i % 3 + 1, 3}, {table.unpack(output.shape)})
            for k, x in ipairs(output.data) do
               assert.equal(i * 100 + k + (output.name == "sum" and 0.5 or -0.5), x)
            end
         end
         clients[i]:close()
      end
      local runs = metric(port, 'tlua_inference_runs_total{model="addsub",version="1"}') - before
      assert.is_true(runs <= n)
   end)

   it("keeps a connection open, and answers pipelined requests in order", function()
      local client <close> = Client.new(port)
      for i = 1, 5 do
         client:start("POST", "/v2/models/addsub/infer", json.encode {inputs = json.as_array {
            input("a", {1, 3}, {i, i, i}), input("b", {1, 3}, {0, 0, 0})}, id = tostring(i)})
      end
      for i = 1, 5 do
         local status, body = client:answer()
         assert.equal(200, status)
         assert.equal(tostring(i), json.decode(body).id)
      end
   end)

   it("answers no version for a version's number that is no integer of Lua", function()
      local good = {inputs = json.as_array {input("a", {1, 3}, {1, 2, 3}), input("b", {1, 3}, {1, 2, 3})}}
      for _, path in ipairs {"/infer", "", "/ready", "/stats"} do
         local status, text = Client.once(port, path == "/infer" and "POST" or "GET",
            "/v2/models/addsub/versions/99999999999999999999" .. path, path == "/infer" and json.encode(good) or nil)
         assert.equal(path == "/ready" and 400 or 404, status, text)
      end
   end)

   it("refuses deadlines that are no seconds, methods that nothing has, and bodies that are no objects", function()
      for _, wait in ipairs {"abc", "-1", "0", "nan", "5x"} do
         local status, text = Client.once(port, "GET", "/v2", nil, {["X-Request-Timeout"] = wait})
         assert.equal(400, status)
         assert.matches("X-Request-Timeout: expected a positive number of seconds", text, 1, true)
      end
      assert.equal(200, (Client.once(port, "GET", "/v2", nil, {["X-Request-Timeout"] = "1.5"})))
      assert.equal(405, (Client.once(port, "DELETE", "/metrics")))
      assert.equal(405, (Client.once(port, "POST", "/", "")))
      assert.equal(200, (Client.once(port, "HEAD", "/v1/models")))
      for _, path in ipairs {"/v2/repository/index", "/v2/repository/models/mlp/load", "/v1/completions"} do
         for body, got in pairs {["[1]"] = "a list", ["5"] = "5", ["null"] = "null", ["{"] = "none: at byte"} do
            local status, text = Client.once(port, "POST", path, body)
            assert.equal(400, status, path .. body)
            assert.matches("the body: expected a JSON object, got " .. got, text, 1, true)
         end
      end
   end)

   it("survives headers and bodies that are cut off, huge or random", function()
      local function send(text)
         local client <close> = Client.new(port)
         client:send(text)
         local ok, status = pcall(client.answer, client)
         return ok and status
      end
      assert.equal(431, send("GET / HTTP/1.1\r\nHost: x\r\nX-Long: " .. ("x"):rep(100000) .. "\r\n\r\n"))
      assert.equal(414, send("GET /" .. ("x"):rep(100000) .. " HTTP/1.1\r\nHost: x\r\n\r\n"))
      for _, text in ipairs {"\0\1\2\3\r\n\r\n", "GET\r\n\r\n"} do
         local client <close> = Client.new(port)
         client:send(text)
         client.socket:take(0.2) -- the server may either send an answer or wait for more bytes
      end
      assert.is_true(({[400] = true, [413] = true, [false] = true})[
         send "POST /v2/models/mlp/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n"])
      assert.equal(413, send "POST /v2/models/mlp/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
      for _ = 1, 50 do
         local client = Client.new(port)
         client:send "POST /v2/models/mlp/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc"
         client:close()
      end
      assert.equal(200, (Client.once(port, "GET", "/v2/models/mlp")))
   end)

   it("stops generating when the client leaves", function()
      local name = 'tlua_inference_requests_total{model="tiny",version="1",result="cancelled"}'
      local before = metric(port, name)
      local client = Client.new(port)
      client:start("POST", "/v1/completions",
         '{"model":"tiny","prompt":"low","max_tokens":500,"stream":true,"logit_bias":{"5":100}}')
      client.socket:take(10)
      client:close()
      local last = torch.io.clock() + 20
      while metric(port, name) == before and torch.io.clock() < last do pause(0.1) end
      assert.equal(before + 1, metric(port, name))
   end)

   it("prints metrics, with the lines of one metric together", function()
      local _, text, headers = Client.once(port, "GET", "/metrics")
      assert.matches("text/plain; version=0.0.4", headers["content-type"], 1, true)
      local seen, current = {}, nil
      for line in text:gmatch "[^\n]+" do
         local name = line:match "^# TYPE (%S+)" or line:match "^([%a_:][%w_:]*)[{ ]"
         name = name and name:gsub("_bucket$", ""):gsub("_sum$", ""):gsub("_count$", "")
         if name and name ~= current then
            assert.is_nil(seen[name], "the metric " .. name .. " is in two places")
            seen[name], current = true, name
         end
      end
      assert.is_true(seen.tlua_http_responses_total and seen.tlua_inference_latency_seconds)
   end)
end)
