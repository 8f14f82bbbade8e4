-- Tests requests that try to confuse or block the server: bodies whose end is ambiguous, huge parts, and clients that
-- load and unload models at the same time.

local torch = require "tlua"
local json = torch.utils.json
local shell = require "spec.support.shell"
package.path = "rocks/serve/spec/?.lua;" .. package.path
local Client = require "client"
local serving = require "serving"

local describe = serving.guarded(describe, it, pending)
local serve, ready, infer, input = serving.serve, serving.ready, serving.infer, serving.input

describe("hostile requests", function()
   local server

   setup(function()
      server = ready(serve(torch.export(torch.nn.ReLU(), {torch.ones(1, 2)}, {dynamic = {input = {1}}})))
   end)

   teardown(function() server:stop() end)

   it("are refused if their body could have two ends, and their connection is closed", function()
      local hidden = "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
      for _, headers in ipairs {
         "Content-Length: 2\r\nContent-Length: 40", "Content-Length: 2\r\nContent-Length: 2",
         "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
         "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: identity, chunked",
         "Transfer-Encoding: xchunked\r\nContent-Length: 2", "Transfer-Encoding : chunked\r\nContent-Length: 2",
      } do
         local client <close> = Client.new(server.port)
         client:send(("POST /v2/models/model/infer HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n{}%s"):format(headers, hidden))
         local status, text = client:answer()
         assert.equal(400, status)
         assert.matches("expected one Content-Length, or Transfer-Encoding: chunked", text, 1, true)
         assert.is_true(client:closes(5), headers)
         assert.equal("", client.rest) -- the hidden request gets no answer
      end
      local client <close> = Client.new(server.port)
      client:send("POST /v2/models/model/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
         .. "2\r\n{}\r\n0\r\n\r\n" .. hidden)
      -- The first request's body {} lacks the field `inputs`, so it gets status 400.
      assert.equal(400, (client:answer()))
      assert.equal(200, (client:answer()))
   end)

   it("get short messages about long parts", function()
      local good = {inputs = json.as_array {input("input", {1, 2}, {1, 2})}}
      local function bad(expected, change)
         local value = json.decode(json.encode(good))
         change(value, value.inputs[1])
         local status, answer = infer(server.port, "model", value)
         assert.equal(400, status)
         assert.matches(expected, answer.error, 1, true)
         assert.is_true(#answer.error < 200)
      end
      bad("input input: shape: expected at most 64 sizes, got 5000", function(_, first)
         for i = 1, 5000 do first.shape[i] = 1 end
      end)
      local long = ("a"):rep(100000)
      bad("unexpected input a text of 100000 bytes", function(_, first) first.name = long end)
      bad("expected the datatype FP32, got a text of 100000 bytes", function(_, first) first.datatype = long end)
      bad("expected the datatype FP32, got BYTES", function(_, first) first.datatype = "BYTES" end)
      bad("unexpected output a text of 100000 bytes", function(value)
         value.outputs = json.as_array {{name = long}}
      end)
      assert.equal(200, (infer(server.port, "model", good)))
   end)
end)

describe("loading and unloading at the same time", function()
   it("answers all clients, and leaves no copies of programs", function()
      shell.with_folder(function(folder)
         -- This makes a program that no other server has: its output is named like the temporary folder.
         local name = folder:match "[^/.]+$"
         assert(torch.io.make_folder(folder .. "/addsub/1"))
         local path = folder .. "/addsub/1/model.tlp"
         torch.export(function(a) return {[name] = a + 1} end, {torch.ones(1, 3)}, {dynamic = {a = {1}}}):save(path)
         local server <close> = ready(serve(folder))
         local port = server.port
         local body = json.encode {inputs = json.as_array {input("a", {1, 3}, {1, 2, 3})}}
         local allowed = {
            load = {[200] = true, [400] = true}, unload = {[200] = true, [404] = true},
            infer = {[200] = true, [404] = true},
         }
         for round = 1, 15 do
            local clients = {}
            for i = 1, 12 do
               local kind = i % 3 == 0 and "infer" or (i + round) % 5 == 0 and "unload" or "load"
               local client = Client.new(port)
               if kind == "infer" then
                  client:start("POST", "/v2/models/addsub/infer", body)
               else
                  client:start("POST", "/v2/repository/models/addsub/" .. kind, "{}")
               end
               clients[i] = {client, kind}
            end
            for _, entry in ipairs(clients) do
               local status, text = entry[1]:answer()
               assert.is_true(allowed[entry[2]][status], ("%s: %d %s"):format(entry[2], status, text))
               entry[1]:close()
            end
         end
         assert.equal(200, (Client.once(port, "POST", "/v2/repository/models/addsub/load", "{}")))
         assert.equal(200, (infer(port, "addsub", body)))
         assert.equal("", (shell.run(("for f in /tmp/lua_*; do cmp -s $f %s 2>/dev/null && echo $f; done; true")
            :format(path))))
      end)
   end)
end)
