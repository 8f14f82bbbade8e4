-- Tests versions of models that are added and removed, limits, deadlines, clients that leave, and batches.

local torch = require "tlua"
local nn = torch.nn
local json = torch.utils.json
local shell = require "spec.support.shell"
package.path = "rocks/serve/spec/?.lua;" .. package.path
local Client = require "client"
local serving = require "serving"

local describe = serving.guarded(describe, it, pending)
local serve, ready, infer = serving.serve, serving.ready, serving.infer
local input, pause, metric = serving.input, serving.pause, serving.metric
local with_folder = shell.with_folder

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

   -- Waits until the server's index shows the given state for a model.
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
            shell.write(path, ("\0"):rep(bytes)) -- the file is overwritten in place
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

   it("does not wait for a writer of a pipe in its folder", function()
      with_folder(function(folder)
         save(folder, 1, 1)
         shell.ok(("cd %s && mkdir -p pipe/1 m/2 other/1 && cp m/1/model.tlp other/1 "
            .. "&& mkfifo pipe/1/model.tlp m/2/model.gguf other/config.json"):format(folder))
         local server <close> = serve(folder)
         wait_for(server, "m", "READY")
         assert.equal(200, (infer(server.port, "m", body)))
         local why_not = wait_for(server, "other", "UNAVAILABLE").reason
         assert.matches("config.json: expected a file, got a pipe", why_not, 1, true)
         local ok, why = pcall(serve, folder .. "/pipe/1/model.tlp")
         assert.is_false(ok)
         assert.matches("/pipe/1/model.tlp: no such file", why, 1, true)
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
            repeat -- the server is ready as soon as one version is ready, so the other version may need longer
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
   -- Returns a program that takes a long time, because it runs n rounds of a loop.
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

   it("serves a program that takes only large sizes", function()
      local function sum(x) return x:sum(1) end
      local program = torch.export(sum, {torch.ones(700)}, {dynamic = {x = {{min = 600, max = 1000}}}})
      local server <close> = ready(serve(program))
      local ones = {}
      for i = 1, 650 do ones[i] = 1 end
      local status, value = infer(server.port, "model", {inputs = json.as_array {input("x", {650}, ones)}})
      assert.equal(200, status)
      assert.equal(650, value.outputs[1].data[1])
      status, value = infer(server.port, "model", {inputs = json.as_array {input("x", {2}, {1, 1})}})
      assert.equal(400, status)
      assert.matches("x: expected a size of at least 600 in dimension 1", value.error, 1, true)
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

   it("answers binary requests with their own rows and status, whether or not the JSON is that of others", function()
      local values = torch.arange(1, 11):view(5, 2):float()
      local function pick(i) return values:index_select(1, i), i * 2 end
      local program = torch.export(pick, {torch.tensor {1, 2}}, {dynamic = {i = {1}}})
      local server = ready(serve(program, {max_queue_delay = 0.2, max_batch_size = 8, outputs = {"row", "twice"}}))
      -- Returns the body and the headers of a request for the rows with the given numbers. All outputs are requested as
      -- bytes.
      local function binary(rows, extra)
         local head = ('{"inputs":[{"name":"i","shape":[%d],"datatype":"INT64","parameters":{"binary_data_size":%d}}],'
            .. '"parameters":{"binary_data_output":true}%s}'):format(#rows, 8 * #rows, extra or "")
         return head .. ("<" .. ("i8"):rep(#rows)):pack(table.unpack(rows)),
            {["Inference-Header-Content-Length"] = ("%d"):format(#head)}
      end
      local function check(client, rows)
         local status, text, headers = client:answer()
         assert.equal(200, status, text)
         local head = tonumber(headers["inference-header-content-length"])
         local outputs = json.decode(text:sub(1, head)).outputs
         assert.same({#rows, 2}, {table.unpack(outputs[1].shape)})
         assert.equal(head + 16 * #rows, #text)
         for k, row in ipairs(rows) do
            local a, b = ("<ff"):unpack(text, head + 8 * k - 7)
            assert.same({2.0 * row - 1, 2.0 * row}, {a, b})
            assert.equal(2 * row, (("<i8"):unpack(text, head + 8 * #rows + 8 * k - 7)))
         end
      end
      for round = 1, 3 do -- from the second round on, the server has answered the same JSON before
         local clients, sent = {}, {}
         for i = 1, 14 do
            local rows = i % 5 == 0 and {1, 3} or {i == 7 and 6 or (i + round) % 5 + 1}
            clients[i], sent[i] = Client.new(server.port), rows
            local body, headers = binary(rows, i % 6 == 0 and ',"id":"x"' or nil)
            clients[i]:start("POST", "/v2/models/model/infer", body, headers)
         end
         for i = 1, 14 do
            if i == 7 then -- the request for row 6 fails, since the table has no such row
               local status, text = clients[i]:answer()
               assert.equal(400, status, text)
            else
               check(clients[i], sent[i])
            end
            clients[i]:close()
         end
      end
      local name = 'tlua_inference_%s_total{model="model",version="1"%s}'
      -- an answer may arrive before the server has updated its counters
      local success, last = name:format("requests", ',result="success"'), torch.io.clock() + 60
      while metric(server.port, success) < 39 and torch.io.clock() < last do pause(0.02) end
      assert.equal(39, metric(server.port, success))
      assert.equal(3, metric(server.port, name:format("requests", ',result="failure"')))
      assert.equal(45, metric(server.port, name:format("examples", "")))
      assert.is_true(metric(server.port, name:format("runs", "")) < 45)
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
