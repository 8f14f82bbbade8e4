-- Tests torch.serve: the protocols, with requests that were recorded from tritonclient and openai (compare_*.py);
-- versions that come and go, limits, deadlines, clients that leave, and malformed requests.

local torch = require "tlua"
local nn = torch.nn
local json = torch.utils.json
local shell = require "spec.support.shell"
local fixtures = "rocks/serve/spec/"
package.path = fixtures .. "?.lua;" .. package.path
local Client = require "client"
local models = require "models"

local available, reason = torch.serve.available()
local describe = available and describe or function(name)
   describe(name, function() it("is not tested here", function() pending(reason) end) end)
end

-- Calls fn(folder) with a temporary folder.
local with_folder = shell.with_folder

local function serve(path, options)
   local all = {port = 0, quiet = true, poll = 0.05, grace = 5}
   for name, value in pairs(options or {}) do all[name] = value end
   local server = torch.serve.start(path, all)
   return server
end

local function ready(server)
   assert.is_true(Client.wait(server.port), "the server is not ready")
   return server
end

local function unhex(text) return (text:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)) end

local function recorded(name)
   local list, by_name = {}, {}
   for line in io.lines(fixtures .. "fixtures/" .. name .. ".jsonl") do
      local entry = assert(json.decode(line))
      entry.body = unhex(entry.body)
      list[#list + 1], by_name[entry.name] = entry, entry
   end
   return list, by_name
end

local function infer(port, model, value, headers)
   local status, body, got = Client.once(port, "POST", "/v2/models/" .. model .. "/infer",
      type(value) == "string" and value or json.encode(value), headers)
   return status, got["content-type"] == "application/json" and json.decode(body) or body, got
end

local function input(name, shape, data, datatype)
   return {name = name, shape = json.as_array(shape), datatype = datatype or "FP32", data = json.as_array(data)}
end

local function pause(seconds) shell.ok("sleep " .. seconds) end

local function metric(port, line)
   local _, text = Client.once(port, "GET", "/metrics")
   for l in text:gmatch "[^\n]+" do
      if l:sub(1, #line + 1) == line .. " " then return tonumber(l:match " (%S+)$") end
   end
end

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
      -- a + b and a - b of compare_triton.py, computed by NumPy in float32
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
            -- the request names its outputs in the order of the inputs, so the bytes come back in that order
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
      bad("inputs: expected objects with a name", function(v) v.inputs[1] = 3 end)
      bad("input a: data: expected 3 numbers for the shape [1,3], got 2", function(v) v.inputs[1].data[3] = nil end)
      bad("input a: data: expected numbers of FP32, got \"\\\"x\\\"", function(v) v.inputs[1].data[2] = "x" end)
      bad("input a: data: expected numbers of FP32, got \"null", function(v) v.inputs[1].data[2] = json.null end)
      bad("input a: data: expected numbers of FP32", function(v) v.inputs[1].data[2] = 1e39 end)
      bad("expected data, or binary_data_size", function(v) v.inputs[1].data = 1 end)
      bad("input a: expected data, or binary_data_size", function(v) v.inputs[1].data = nil end)
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
      bad("input a: both data and", function(v) v.inputs[1].parameters = {binary_data_size = 12} end)
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
      bad("outputs: expected a list", function(v) v.outputs = {} end)
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
      send "\0\1\2\3\r\n\r\n"
      send "GET\r\n\r\n"
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

describe("torch.serve with versions", function()
   local function save(folder, version, number)
      local path = ("%s/m/%d"):format(folder, version)
      local hidden = ("%s/.new"):format(folder)
      assert(torch.io.make_folder(hidden))
      assert(torch.io.make_folder(folder .. "/m"))
      local function f(x) return x * 0 + number end
      torch.export(f, {torch.ones(1)}, {dynamic = {x = {1}}}):save(hidden .. "/model.tlp")
      assert(os.rename(hidden, path))
   end
   local body = json.encode {inputs = json.as_array {input("x", {1}, {1})}}

   -- Waits until the index has a model's entry with this state.
   local function wait_for(server, name, state)
      local last = torch.io.clock() + 20
      repeat
         local status, text = Client.once(server.port, "POST", "/v2/repository/index", "")
         assert.equal(200, status, text)
         for _, entry in ipairs(json.decode(text)) do
            if entry.name == name and entry.state == state then return entry end
         end
         pause(0.05)
      until torch.io.clock() > last
      error("no " .. state)
   end

   it("answers as before after its program's file was overwritten or cut off", function()
      with_folder(function(folder)
         save(folder, 1, 7)
         local server <close> = ready(serve(folder))
         local path = folder .. "/m/1/model.tlp"
         local size = #shell.read(path)
         for _, bytes in ipairs {size, 0} do
            shell.write(path, ("\0"):rep(bytes)) -- in place
            local status, value = infer(server.port, "m", body)
            assert.equal(200, status)
            assert.equal(7, value.outputs[1].data[1])
         end
      end)
   end)

   it("tries a version again whose file had its size before its content", function()
      with_folder(function(folder)
         save(folder, 1, 1)
         local whole = shell.read(folder .. "/m/1/model.tlp")
         shell.write(folder .. "/m/1/model.tlp", ("\0"):rep(#whole))
         local server <close> = serve(folder)
         assert.matches("m/1/model.tlp: ", wait_for(server, "m", "UNAVAILABLE").reason, 1, true)
         shell.write(folder .. "/m/1/model.tlp", whole)
         wait_for(server, "m", "READY")
      end)
   end)

   it("names in its index what is wrong with a model's config.json, versions or name, and goes on", function()
      with_folder(function(folder)
         save(folder, 1, 1)
         local server <close> = ready(serve(folder))
         local config = folder .. "/m/config.json"
         assert(torch.io.make_folder(config))
         assert.matches("config.json: Is a directory", wait_for(server, "m", "UNAVAILABLE").reason, 1, true)
         os.remove(config)
         for text, expected in pairs {
            ["null"] = "config.json: expected an object, got null",
            ['{"versions":[7]}'] = "versions: expected some of 1, which are there, got 7",
            ['{"versions":["x"]}'] = 'config.json: versions: expected "latest", "all" or a list of numbers from 1',
            ['{"queue":4294967296}'] = "config.json: queue: expected an integer from 1 to 1048576, got 4294967296",
            ['{"timeout":1e300}'] = "config.json: timeout: expected a positive number of seconds, at most 1e9",
         } do
            shell.write(config, text)
            local last = torch.io.clock() + 20
            local entry
            repeat
               entry = wait_for(server, "m", "UNAVAILABLE")
               pause(0.05)
            until entry.reason:find(expected, 1, true) or torch.io.clock() > last
            assert.matches(expected, entry.reason, 1, true)
         end
         shell.ok(("cp -r %s/m \"$(printf '%s/n\\377')\""):format(folder, folder))
         assert.matches("not UTF-8", wait_for(server, "n?", "UNAVAILABLE").reason, 1, true)
         assert.equal(200, (infer(server.port, "m", body)))
      end)
   end)

   it("loses no request while versions change", function()
      with_folder(function(folder)
         save(folder, 1, 1)
         local server = ready(serve(folder, {max_batch_size = 4}))
         local clients = {}
         for i = 1, 8 do clients[i] = Client.new(server.port) end
         local seen, count, version = {}, 0, 1
         local last = torch.io.clock() + 60
         while not seen[4] and torch.io.clock() < last do
            for _, client in ipairs(clients) do client:start("POST", "/v2/models/m/infer", body) end
            for _, client in ipairs(clients) do
               local status, text = client:answer()
               assert.equal(200, status, text)
               local value = json.decode(text)
               assert.equal(tonumber(value.model_version), value.outputs[1].data[1])
               seen[tonumber(value.model_version)] = true
               count = count + 1
            end
            if seen[version] and version < 4 then
               version = version + 1
               save(folder, version, version)
            end
         end
         assert.is_true(seen[1] and seen[2] and seen[3] and seen[4])
         assert.is_true(count > 30)
         local _, text = Client.once(server.port, "GET", "/v2/models/m")
         assert.same({"4"}, {table.unpack(json.decode(text).versions)})
         server:stop()
      end)
   end)

   it("serves all versions if versions = all, and keeps the old one when the new one is damaged", function()
      with_folder(function(folder)
         save(folder, 1, 1)
         save(folder, 2, 2)
         local server = ready(serve(folder, {versions = "all"}))
         for version = 1, 2 do
            local path = ("/v2/models/m/versions/%d/infer"):format(version)
            local status, text
            local last = torch.io.clock() + 20
            repeat -- the server is ready as soon as one version is
               status, text = Client.once(server.port, "POST", path, body)
            until status == 200 or torch.io.clock() > last
            assert.equal(200, status)
            assert.equal(version, json.decode(text).outputs[1].data[1])
         end
         local _, text = Client.once(server.port, "POST", "/v2/models/m/infer", body)
         assert.equal("2", json.decode(text).model_version)
         assert(torch.io.make_folder(folder .. "/m/3"))
         shell.ok(("head -c 100 %s/m/2/model.tlp >%s/m/3/model.tlp"):format(folder, folder))
         local last, index = torch.io.clock() + 20, ""
         while not index:find "UNAVAILABLE" and torch.io.clock() < last do
            _, index = Client.once(server.port, "POST", "/v2/repository/index", "{}")
         end
         assert.matches('"reason":"[^"]', index)
         _, text = Client.once(server.port, "POST", "/v2/models/m/infer", body)
         assert.equal("2", json.decode(text).model_version)
         shell.ok(("rm -r %s/m"):format(folder))
         last = torch.io.clock() + 20
         local status = 200
         while status ~= 404 and torch.io.clock() < last do
            status = Client.once(server.port, "POST", "/v2/models/m/infer", body)
         end
         assert.equal(404, status)
         server:stop()
      end)
   end)

   it("refuses unknown options in config.json", function()
      with_folder(function(folder)
         save(folder, 1, 1)
         local file = io.open(folder .. "/m/config.json", "w")
         file:write '{"max_batch": 4}'
         file:close()
         local server = serve(folder)
         local _, text = Client.once(server.port, "POST", "/v2/repository/index", "{}")
         assert.matches("config.json: unknown option max_batch; did you mean max_batch_size?", text, 1, true)
         assert.equal(503, (Client.once(server.port, "GET", "/v2/health/ready")))
         server:stop()
      end)
   end)
end)

describe("torch.serve with limits", function()
   -- Returns a program that takes a long time: it runs n rounds of a loop.
   local function slow()
      local function below(i, n) return i:lt(n) end
      local function step(i, n) return i + 1, n end
      local function f(n)
         local i = torch.while_loop(below, step, {torch.zeros(1, {dtype = "int64"}):sum(), n})
         return i
      end
      return torch.export(f, {torch.tensor(3)})
   end
   local function rounds(n)
      return json.encode {inputs = json.as_array {input("n", {}, {n}, "INT64")}}
   end

   it("answers 429 when the queue is full, and 504 after the deadline, while the model is busy", function()
      local server = ready(serve(slow(), {queue = 2, timeout = 1.5}))
      local clients, statuses = {}, {}
      for i = 1, 8 do
         clients[i] = Client.new(server.port)
         clients[i]:start("POST", "/v2/models/model/infer", rounds(20000000))
         pause(0.02)
      end
      local start = torch.io.clock()
      for i = 1, 8 do
         local status, _, headers = clients[i]:answer()
         statuses[status] = (statuses[status] or 0) + 1
         if status == 429 then assert.equal("1", headers["retry-after"]) end
         clients[i]:close()
      end
      assert.is_true(torch.io.clock() - start < 10)
      assert.equal(5, statuses[429])
      assert.is_true((statuses[504] or 0) >= 2)
      assert.is_true(Client.once(server.port, "GET", "/v2/health/live") == 200)
      local last, status = torch.io.clock() + 20
      repeat status = Client.once(server.port, "POST", "/v2/models/model/infer", rounds(3))
      until status == 200 or torch.io.clock() > last
      assert.equal(200, status)
      server:stop()
   end)

   it("takes a deadline from the request", function()
      local server = ready(serve(slow(), {timeout = 2}))
      local busy <close> = Client.new(server.port)
      busy:start("POST", "/v2/models/model/infer", rounds(20000000))
      pause(0.1)
      local start = torch.io.clock()
      local status = Client.once(server.port, "POST", "/v2/models/model/infer", rounds(3),
         {["X-Request-Timeout"] = "0.3"})
      assert.equal(504, status)
      assert.is_true(torch.io.clock() - start < 1.5)
      server:stop()
   end)

   it("asks for a token, except for health", function()
      local server = ready(serve(slow(), {tokens = {"secret", "other"}}))
      local function status(token, path)
         return (Client.once(server.port, "GET", path or "/v2", nil, {Authorization = token}))
      end
      assert.equal(401, status(nil))
      assert.equal(401, status "Bearer secre")
      assert.equal(401, status "Bearer secret2")
      assert.equal(401, status "secret")
      assert.equal(200, status "Bearer secret")
      assert.equal(200, status "Bearer other")
      assert.equal(200, status(nil, "/v2/health/ready"))
      assert.equal(401, (Client.once(server.port, "POST", "/v2/models/model/infer", rounds(3))))
      server:stop()
   end)

   it("refuses large bodies, and closes connections that send too slowly", function()
      local server = ready(serve(slow(), {max_body = 1000, receive_timeout = 1}))
      assert.equal(413, (Client.once(server.port, "POST", "/v2/models/model/infer", ("x"):rep(1001))))
      local chunked <close> = Client.new(server.port)
      chunked:send "POST /v2/models/model/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      chunked:send("5dc\r\n" .. ("x"):rep(1500) .. "\r\n0\r\n\r\n")
      assert.equal(413, (chunked:answer()))
      local slow_client <close> = Client.new(server.port)
      local open = true
      slow_client:send "POST /v2/models/model/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n"
      local last = torch.io.clock() + 10
      while open and torch.io.clock() < last do
         slow_client:send "X"
         open = not slow_client:closes(0.2)
      end
      assert.is_false(open)
      server:stop()
   end)

   it("answers open requests when it shuts down, and accepts no more connections", function()
      local server = ready(serve(slow(), {grace = 20}))
      local client <close> = Client.new(server.port)
      client:start("POST", "/v2/models/model/infer", rounds(300000))
      pause(0.1)
      server:stop()
      local status, _, headers = client:answer()
      assert.equal(200, status)
      assert.equal("close", (headers.connection or ""):lower())
      assert.is_nil(torch._connect("127.0.0.1", server.port, 1))
      server:stop()
   end)

   it("names the options that are wrong", function()
      local program = slow()
      assert.raises('serve.start: unknown option prt; did you mean port?', function()
         torch.serve.start(program, {prt = 1})
      end)
      assert.raises("serve.start: port: expected an integer from 0 to 65535, got 70000", function()
         torch.serve.start(program, {port = 70000})
      end)
      assert.raises("serve.start: max_batch_size: expected an integer from 1 to 256, got 0", function()
         torch.serve.start(program, {max_batch_size = 0})
      end)
      assert.raises("serve.start: expected both key and certificate, got only key", function()
         torch.serve.start(program, {key = "x"})
      end)
      assert.raises("serve.start: models: expected a path, a program", function() torch.serve.start(3) end)
      assert.raises("serve.start: /nowhere", function() torch.serve.start("/nowhere", {port = 0}) end)
      with_folder(function(folder)
         assert.raises("expected models there, as NAME/VERSION/model.tlp", function()
            torch.serve.start(folder, {port = 0})
         end)
      end)
      local server = serve(program)
      assert.raises("Address already in use", function() torch.serve.start(program, {port = server.port}) end)
      server:stop()
   end)
end)

describe("torch.serve and batches", function()
   it("runs each request alone if examples depend on one another", function()
      local function centred(x) return x - x:mean(1) end
      local program = torch.export(centred, {torch.ones(2)}, {dynamic = {x = {1}}})
      local alone = torch.export(nn.Linear(2, 1):eval(), {torch.ones(1, 2)}, {dynamic = {input = {1}}})
      local server = ready(serve({centred = program, linear = alone}))
      local _, text = Client.once(server.port, "GET", "/v2/models/centred/config")
      assert.equal(0, json.decode(text).max_batch_size)
      _, text = Client.once(server.port, "GET", "/v2/models/linear/config")
      assert.equal(32, json.decode(text).max_batch_size)
      server:stop()
   end)

   it("collects requests for max_queue_delay", function()
      local program = torch.export(nn.ReLU(), {torch.ones(1, 2)}, {dynamic = {input = {1}}})
      local server = ready(serve(program, {max_queue_delay = 0.5, max_batch_size = 8}))
      local clients = {}
      for i = 1, 8 do
         clients[i] = Client.new(server.port)
         clients[i]:start("POST", "/v2/models/model/infer",
            json.encode {inputs = json.as_array {input("input", {1, 2}, {-1, i})}})
      end
      for i = 1, 8 do
         local _, text = clients[i]:answer()
         assert.same({0, i}, {table.unpack(json.decode(text).outputs[1].data)})
         clients[i]:close()
      end
      assert.is_true(metric(server.port, 'tlua_inference_runs_total{model="model",version="1"}') <= 3)
      server:stop()
   end)

   it("fails only the wrong one of several requests", function()
      local table_of = torch.rand(5, 2)
      local function pick(i) return table_of:index_select(1, i) end
      local program = torch.export(pick, {torch.tensor {1, 2}}, {dynamic = {i = {1}}})
      local server = ready(serve(program, {max_queue_delay = 0.3}))
      local clients = {}
      for i = 1, 6 do
         clients[i] = Client.new(server.port)
         clients[i]:start("POST", "/v2/models/model/infer",
            json.encode {inputs = json.as_array {input("i", {1}, {i}, "INT64")}})
      end
      for i = 1, 6 do
         local status, text = clients[i]:answer()
         assert.equal(i <= 5 and 200 or 400, status, text)
         if i == 6 then assert.matches("6", text, 1, true) end
         clients[i]:close()
      end
      server:stop()
   end)
end)

describe("tlua serve", function()
   it("serves a file, ends on SIGTERM after answering, and logs each request", function()
      with_folder(function(folder)
         local program = torch.export(nn.ReLU(), {torch.ones(1, 2)}, {dynamic = {input = {1}}})
         program:save(folder .. "/relu.tlp")
         local command = ("%s serve %s/relu.tlp --port 0 --access-log %s/access >%s/log 2>&1 & echo $!"):format(
            shell.start(), folder, folder, folder)
         local pid = shell.ok(command):match "%d+"
         local port
         local last = torch.io.clock() + 60
         repeat
            pause(0.1)
            port = tonumber((shell.read(folder .. "/log") or ""):match "port (%d+)")
         until port or torch.io.clock() > last
         assert.is_true(Client.wait(port))
         local status, body = infer(port, "relu", {inputs = json.as_array {input("input", {1, 2}, {-1, 2})}})
         assert.equal(200, status)
         assert.same({0, 2}, {table.unpack(body.outputs[1].data)})
         Client.once(port, "GET", '/x%0A"y')
         shell.ok("kill -TERM " .. pid)
         last = torch.io.clock() + 20
         repeat pause(0.1) until shell.read(folder .. "/log"):find "stopped" or torch.io.clock() > last
         assert.matches("serve: stopping\n.*serve: stopped\n", shell.read(folder .. "/log"))
         local log = shell.read(folder .. "/access")
         assert.matches('127.0.0.1 %- %- %[[^%]]+%] "POST /v2/models/relu/infer HTTP/1.1" 200 %d+ %d+%.%d+\n', log)
         assert.matches('GET /x\\x0A\\x22y HTTP/1.1" 404', log, 1, true)
      end)
   end)

   it("explains its options, and refuses others", function()
      local text, status = shell.run(shell.start() .. " serve --help")
      assert.equal(0, status)
      assert.matches("usage: tlua serve PATH", text, 1, true)
      for words, expected in pairs {
         [""] = "expected the path of models", ["a b"] = "expected one path, got also b",
         ["a --prt 1"] = "unknown option --prt; did you mean port?",
         ["a --port x"] = "--port: expected a number, got x",
         ["a --port"] = "--port: expected a value", ["a --quiet=1"] = "--quiet: expected no value",
         ["/nowhere --port 0"] = "/nowhere",
      } do
         text, status = shell.run(shell.start() .. " serve " .. words)
         assert.equal(1, status)
         assert.matches(expected, text, 1, true)
      end
   end)
end)

describe("examples/deploy/serve.lua", function()
   it("recognises the same digits over HTTP as the program itself", function()
      with_folder(function(folder)
         local path = shell.quote(folder .. "/digits.tlp")
         local right = shell.ok(("%s examples/deploy/export.lua --epochs 1 --save %s"):format(shell.start(), path))
            :match "(%d+ of 1797 digits read right)\n$"
         local output = shell.ok(("%s examples/deploy/serve.lua %s"):format(shell.start(), path))
         assert.matches(right .. " over HTTP; scores differ from the program's by at most", output, 1, true)
         assert.is_true(tonumber(output:match "at most (%S+)\n$") < 1e-5)
      end)
   end)
end)

describe("torch.serve with TLS", function()
   it("answers clients that trust its certificate", function()
      if not (shell.has "openssl" and shell.has "curl") then return pending "no openssl or curl" end
      with_folder(function(folder)
         shell.ok(("cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 "
            .. "-subj /CN=localhost -addext subjectAltName=DNS:localhost"):format(folder))
         local program = torch.export(nn.ReLU(), {torch.ones(1, 2)})
         local options = {port = 0, quiet = true, key = folder .. "/key.pem", certificate = folder .. "/cert.pem"}
         local server <close> = torch.serve.start(program, options)
         local command = ("curl -sS --retry 20 --retry-connrefused --retry-delay 1 --cacert %s/cert.pem "
            .. "https://localhost:%d/v2"):format(folder, server.port)
         assert.equal("tlua", json.decode(shell.ok(command)).name)
         assert.not_equal(0, (select(2, shell.run(command:gsub("%-%-cacert %S+", "")))))
         options.certificate = folder .. "/key.pem"
         assert.raises("do key and certificate fit?", function() torch.serve.start(program, options) end)
      end)
   end)
end)

describe("the server in C", function()
   it("refuses statuses that are none, and writes before a stream begins", function()
      local server = assert(require "tlua.serve.library".open()).start {port = 0, address = "127.0.0.1"}
      local client = Client.new(server:port())
      client:send "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
      local request = server:take(0, 1, 5)[1]
      assert.is_false(request:finish())
      assert.raises("serve: the stream has not begun", function() request:write "x" end)
      for _, status in ipairs {0, 199, 600, -1, 1 << 32} do
         local text = "serve: status: expected 200 to 599, got " .. status
         assert.raises(text, function() request:reply(status, "text/plain", "") end)
         assert.raises(text, function() request:stream(status, "text/plain") end)
         assert.raises(text, function() server:fixed("GET", "/b", status, "text/plain", "") end)
      end
      assert.raises("expected at least 0", function() server:take(0, -1, 0) end)
      assert.same({}, server:take(0, 8, 0.05)) -- the request is not there a second time
      assert.same({0, 0, 0}, {server:sweep()})
      assert.is_true(request:stream(200, "text/plain"))
      assert.raises("serve: the stream has begun", function() request:forward(0) end)
      assert.is_true(request:write "all")
      assert.is_true(request:finish())
      local status, body = client:answer()
      assert.same({200, "all"}, {status, body})
      client:close()
      server:stop()
   end)
end)

describe("the options of torch.serve", function()
   local program

   setup(function() program = torch.export(nn.Linear(2, 3), {torch.ones(1, 2)}) end)

   it("refuses names of programs that lead out of the folder, and tokens that let everybody in", function()
      for _, name in ipairs {"..", ".", ".x", "a/b", "-a"} do
         assert.raises("serve.start: models: expected names of letters", function()
            torch.serve.start({[name] = program}, {port = 0, quiet = true})
         end)
      end
      for _, tokens in ipairs {{""}, {"a", 5}, {"a b"}, {"a\n"}, {}} do
         assert.raises("serve.start: tokens: expected a list of texts without spaces", function()
            torch.serve.start(program, {port = 0, quiet = true, tokens = tokens})
         end)
      end
   end)

   it("leaves signals as they were before torch.serve, also after an error", function()
      with_folder(function(folder)
         shell.write(folder .. "/s.lua", [[
            local torch = require "tlua"
            pcall(torch.serve, "/nowhere")
            os.execute "(sleep 0.5; kill -TERM $PPID) &"
            torch.serve(arg[1], {port = 0, quiet = true})
            io.stdout:write("returned\n"):flush()
            os.execute "kill -TERM $PPID; sleep 0.2"
            print "still there"
         ]])
         program:save(folder .. "/m.tlp")
         local output = shell.run(("%s %s/s.lua %s/m.tlp"):format(shell.start(), folder, folder))
         assert.matches("returned", output, 1, true)
         assert.not_matches("still there", output, 1, true)
      end)
   end)

   it("does not serve without TLS or tokens when their files are folders or empty", function()
      with_folder(function(folder)
         program:save(folder .. "/m.tlp")
         shell.write(folder .. "/empty", "\n \n")
         shell.write(folder .. "/none", "")
         local function refuses(message, options)
            local output, status = shell.run(("timeout 20 %s serve %s/m.tlp --port 0 %s"):format(shell.start(), folder,
               options:gsub("@", folder)))
            assert.equal(1, status, output)
            assert.matches(message, output, 1, true)
         end
         refuses("key: cannot read " .. folder .. ": Is a directory", "--key @ --certificate @")
         refuses("key: cannot read " .. folder .. "/none: the file is empty", "--key @/none --certificate @/none")
         refuses("--token-file: cannot read " .. folder .. ": Is a directory", "--token-file @")
         refuses("--token-file: expected a token on each line of " .. folder .. "/empty, got none",
            "--token-file @/empty")
         refuses("tokens: expected a list of texts without spaces", "--token ''")
         refuses("address: expected an address", "--address ''")
      end)
   end)
end)
