-- Tests models that are written in Lua, inputs that are texts (BYTES), and compressed bodies.

local torch = require "tlua"
local json = torch.utils.json
local shell = require "spec.support.shell"
package.path = "rocks/serve/spec/?.lua;" .. package.path
local Client = require "client"
local models = require "models"
local serving = require "serving"

local describe = serving.guarded(describe, it, pending)
local serve, ready, infer, input = serving.serve, serving.ready, serving.infer, serving.input
local with_folder = shell.with_folder

-- Serves a folder with a model `m`, whose source is `text`, and calls fn(server, folder).
local function with_model(text, options, fn)
   with_folder(function(folder)
      assert(torch.io.make_folder(folder .. "/m/1"))
      shell.write(folder .. "/m/1/model.lua", text)
      local server <close> = serve(folder, options)
      fn(server, folder)
   end)
end

-- Returns the source of a model that has one input and one output of numbers. `fn` is the source of its function `run`.
local function one(fn)
   return ([[local torch = require "tlua"
      return {inputs = {{name = "x", datatype = "FP32", shape = {-1}}},
         outputs = {{name = "y", datatype = "FP32", shape = {-1}}}, run = %s}]]):format(fn)
end

local body = {inputs = json.as_array {input("x", {2}, {1, 2})}}

describe("a model in Lua", function()
   it("gets and returns texts, in JSON and as bytes", function()
      with_folder(function(folder)
         models.programs(folder)
         local server <close> = ready(serve(folder))
         local words = json.as_array {"aä", "", 'x"data":[', "\0"}
         local status, answer = infer(server.port, "texts", {inputs = json.as_array {
            input("text", {4}, words, "BYTES"), input("times", {1}, {2}, "INT64")}})
         assert.equal(200, status)
         assert.same({"AäAä", "", 'X"DATA":[X"DATA":[', "\0\0"}, {table.unpack(answer.outputs[1].data)})
         assert.same({4, 1}, {table.unpack(answer.outputs[1].shape)})
         assert.same({3, 0, 9, 1}, {table.unpack(answer.outputs[2].data)})
         local _, by_name = serving.recorded "tritonclient"
         local entry = by_name["texts in True out True"]
         local _, got, headers = Client.once(server.port, entry.method, entry.path, entry.body, entry.headers)
         local rest = got:sub(tonumber(headers["inference-header-content-length"]) + 1)
         assert.equal("Ä BÄ B", (("<s4"):unpack(rest)))
         assert.equal(0, (("<I4"):unpack(rest, 13)))

         local function bad(expected, change)
            local value = {inputs = json.as_array {input("text", {2}, {"a", "b"}, "BYTES"),
               input("times", {1}, {2}, "INT64")}}
            change(value.inputs[1])
            local refused, problem = infer(server.port, "texts", value)
            assert.equal(400, refused)
            assert.matches(expected, problem.error, 1, true)
         end
         bad("input text: data: expected 2 texts for the shape [2], got 1", function(v) v.data[2] = nil end)
         bad("input text: data: expected texts of BYTES, got 5", function(v) v.data[2] = 5 end)
         bad("input text: data: expected texts of BYTES, got null", function(v) v.data[1] = json.null end)
         bad("input text: expected data, or binary_data_size", function(v) v.data = nil end)
         bad("input text: binary_data_size: expected at least 8 for the shape [2] of BYTES, got 7", function(v)
            v.data, v.parameters = nil, {binary_data_size = 7}
         end)
         for bytes, expected in pairs {
            ["\1\0\0\0a\2\0\0\0b"] = "input text: text 2 of 2: expected 4 bytes with its length and then its bytes, "
               .. "got 5 bytes",
            ["\1\0\0\0a\1\0\0\0bc"] = "input text: 1 bytes are left after 2 texts",
            ["\255\255\255\255\0\0\0\0"] = "input text: text 1 of 2: expected 4 bytes",
         } do
            local head = json.encode {inputs = json.as_array {{name = "text", datatype = "BYTES",
               shape = json.as_array {2}, parameters = {binary_data_size = #bytes}},
               input("times", {1}, {1}, "INT64")}}
            local refused, problem = infer(server.port, "texts", head .. bytes,
               {["Inference-Header-Content-Length"] = tostring(#head)})
            assert.equal(400, refused)
            assert.matches(expected, problem.error, 1, true)
         end
      end)
   end)

   it("answers the client when it raises, yields, hangs or returns something else, and goes on", function()
      local run = [[(function()
      local function loop() while true do end end
      local early = coroutine.wrap(function() coroutine.yield() loop() end)
      early()
      return function(inputs)
         local case = inputs.x:tolist()[1]
         if case == 1 then error "no luck" end
         if case == 2 then coroutine.yield(5) end
         local function forever() while true do end end
         local function catch() while true do pcall(forever) end end
         if case == 3 then while true do pcall(catch) end end
         if case == 4 then return nil end
         if case == 5 then return {y = inputs.x:double()} end
         if case == 6 then return {y = inputs.x:view(-1, 1)} end
         if case == 7 then error {status = 422, message = "x is odd"} end
         if case == 8 then return {y = {1, 2}} end
         if case == 9 then error(setmetatable({}, {__tostring = function() error "twice" end})) end
         if case == 10 then while true do pcall(early) pcall(coroutine.wrap(loop)) end end
         return {y = inputs.x * 2}
      end end)()]]
      with_model(one(run), {timeout = 0.5}, function(server)
         ready(server)
         local expected = {
            {500, "model m: .*model.lua:%d+: no luck"}, {500, "attempt to yield"}, {504, "the deadline is over"},
            {500, "model m: output y: expected a tensor of float32, got nil"},
            {500, "model m: output y: expected a tensor of float32, got a float64 tensor of shape %(2%)"},
            {500, "model m: output y: expected the shape %[%-1%], got a float32 tensor of shape %(2, 1%)"},
            {422, "^x is odd$"}, {500, "model m: output y: expected a tensor of float32, got a table"},
            {500, "model m: "}, {504, "the deadline is over"},
         }
         for case, wanted in ipairs(expected) do
            local status, answer = infer(server.port, "m", {inputs = json.as_array {input("x", {2}, {case, 0})}})
            assert.equal(wanted[1], status)
            assert.matches(wanted[2], answer.error)
         end
         local status, answer = infer(server.port, "m", {inputs = json.as_array {input("x", {2}, {11, 20})}})
         assert.equal(200, status)
         assert.same({22, 40}, {table.unpack(answer.outputs[1].data)})
      end)
   end)

   it("is told which text, shape or tensor of its outputs is wrong", function()
      local text = [[return {inputs = {{name = "x", datatype = "FP32", shape = {-1}}},
         outputs = {{name = "y", datatype = "BYTES", shape = {-1}}}, run = function(inputs)
            local cases = {
               {y = {"a", 2}}, {y = {"a", shape = {2}}}, {y = {"a", shape = "1"}}, {y = {shape = {-1}}},
               {y = {"a", shape = {1 << 62, 8}}}, {y = {"a", shape = {1, 1}}}, {y = "a"},
               setmetatable({}, {__index = function() error "no fields" end}), {y = {"a", "b"}},
            }
            local case = inputs.x:tolist()[1]
            if case == 0 then error {} end
            if case == -1 then error {status = 400} end
            return cases[case]
         end}]]
      with_model(text, nil, function(server)
         ready(server)
         local expected = {
            [-1] = "^an error without a text$", [0] = "^model m: an error without a text$",
            "expected a text at %[2%], got 2$",
            "expected 2 texts, got 1$", 'expected a list as the shape, got "1"$',
            "expected a size as shape%[1%], got %-1$", "expected a size as shape%[2%], got 8$",
            "expected the shape %[%-1%], got the shape %[1,1%]$", 'expected a list of texts, got "a"$', "no fields$",
         }
         for case = -1, #expected do
            local status, answer = infer(server.port, "m", {inputs = json.as_array {input("x", {1}, {case})}})
            assert.equal(case == -1 and 400 or 500, status)
            assert.matches(expected[case], answer.error)
         end
         local _, answer = infer(server.port, "m", {inputs = json.as_array {input("x", {1}, {9})}})
         assert.same({"a", "b"}, {table.unpack(answer.outputs[1].data)})
      end)
   end)

   it("runs once for each request, also if its outputs have other shapes each time", function()
      local run = [[function(inputs)
         runs = (runs or 0) + 1
         return {y = torch.full({runs}, 0.5)}
      end]]
      with_model(one(run), nil, function(server)
         ready(server)
         local bytes = ("<ff"):pack(1, 2)
         local head = json.encode {inputs = json.as_array {{name = "x", datatype = "FP32", shape = json.as_array {2},
            parameters = {binary_data_size = #bytes}}}}
         for i = 1, 4 do
            local status, answer = infer(server.port, "m", head .. bytes,
               {["Inference-Header-Content-Length"] = tostring(#head)})
            assert.equal(200, status)
            assert.same({i}, {table.unpack(answer.outputs[1].shape)})
         end
      end)
   end)

   it("stops with its server while it runs forever", function()
      with_model(one "function() while true do end end", {timeout = 1e6, grace = 0.1}, function(server)
         ready(server)
         local client <close> = Client.new(server.port)
         client:start("POST", "/v2/models/m/infer", json.encode(body))
         serving.pause(0.3)
         local start = torch.io.clock()
         server:stop()
         assert.is_true(torch.io.clock() - start < 20)
      end)
   end)

   it("names in the index what is wrong with its file", function()
      local good = one "function(inputs) return {y = inputs.x} end"
      for text, expected in pairs {
         ["return {"] = "model.lua:1: ", ["error 'broken'"] = "model.lua:1: broken",
         ["return 5"] = "model.lua: expected a table with inputs, outputs and a function `run`, got 5",
         ["return {run = 1}"] = "and a function `run`, got one without `run`",
         ["return {run = print}"] = "model m: inputs: expected a list of at least one table {name =, datatype =, "
            .. "shape =}, got nil",
         [good:gsub('"x"', "7", 1)] = "model m: inputs[1].name: expected a name that no other has, got 7",
         [good:gsub("FP32", "FP31", 1)] = "model m: inputs[1].datatype: expected a datatype of the protocol, such as "
            .. 'FP32, got "FP31"',
         [good:gsub("{%-1}", "{0.5}", 1)] = "model m: inputs[1].shape[1]: expected a size, or -1 for any size, got 0.5",
         ["\27Lua"] = "attempt to load a binary chunk",
      } do
         with_model(text, nil, function(server)
            local last, reason = torch.io.clock() + 20
            repeat
               local _, index = Client.once(server.port, "POST", "/v2/repository/index", "")
               reason = json.decode(index)[1].reason
               serving.pause(0.02)
            until reason ~= "" or torch.io.clock() > last
            assert.matches(expected, reason, 1, true)
         end)
      end
   end)
end)

describe("compressed bodies", function()
   it("are unpacked, and those that are damaged or too large after it refused", function()
      local program = torch.export(torch.nn.ReLU(), {torch.ones(1, 2)})
      local server <close> = ready(serve(program, {max_body = 1000}))
      local text = json.encode {inputs = json.as_array {input("input", {1, 2}, {-1, 2})}}
      -- Packs a text as a zlib stream (RFC 1950) with one stored block of deflate (RFC 1951).
      local function zlib(s)
         local a, b = 1, 0
         for i = 1, #s do
            a = (a + s:byte(i)) % 65521
            b = (b + a) % 65521
         end
         return "\x78\x01\x01" .. ("<I2I2"):pack(#s, ~#s & 0xFFFF) .. s .. (">I2I2"):pack(b, a)
      end
      local function ask(content, encoding)
         local status, answer = infer(server.port, "model", content, {["Content-Encoding"] = encoding})
         return status, answer.error or answer.outputs[1].data[2]
      end
      assert.same({200, 2.0}, {ask(zlib(text), "deflate")})
      assert.same({200, 2.0}, {ask(zlib(text), "Deflate")})
      local damaged = zlib(text):gsub("2", "3") -- the data do not match the checksum any more
      for _, content in ipairs {zlib(text):sub(1, 40), zlib(text):sub(1, -2), damaged} do
         local status, message = ask(content, "deflate")
         assert.equal(400, status)
         assert.matches("the body is not deflate: ", message, 1, true)
      end
      assert.same({400, "the body is not deflate: it begins otherwise, with the bytes 78 02"},
         {ask("\x78\x02" .. text, "deflate")})
      assert.same({400, "the body is not deflate: it is too short, 2 bytes"}, {ask("\x78\x01", "deflate")})
      with_folder(function(folder)
         local function gzip(content)
            shell.write(folder .. "/b", content)
            shell.ok(("gzip -kf %s/b"):format(folder))
            return shell.read(folder .. "/b.gz")
         end
         assert.same({200, 2.0}, {ask(gzip(text), "gzip")})
         assert.same({413, "the body has more than the 1000 bytes that this server allows after it is unpacked"},
            {ask(gzip((" "):rep(900000)), "gzip")})
         assert.equal(400, (ask(gzip(text):sub(1, -9), "gzip")))
      end)
   end)
end)
