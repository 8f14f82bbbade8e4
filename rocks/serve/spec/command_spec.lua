-- Tests `tlua serve`, TLS, the server in C, and the options of torch.serve.

local torch = require "tlua"
local nn = torch.nn
local json = torch.utils.json
local shell = require "spec.support.shell"
package.path = "rocks/serve/spec/?.lua;" .. package.path
local Client = require "client"
local serving = require "serving"

local describe = serving.guarded(describe, it, pending)
local infer, input, pause = serving.infer, serving.input, serving.pause
local with_folder = shell.with_folder

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
   it("refuses settings outside their ranges, and starts again after any number of failures", function()
      local http = assert(require "tlua.serve.library".open())
      local function refuses(message, settings)
         settings.port, settings.address = settings.port or 0, settings.address or "127.0.0.1"
         assert.raises(message, function() http.start(settings) end)
      end
      refuses("serve: port: expected an integer from 0 to 65535, got 70000", {port = 70000})
      refuses("serve: port: expected an integer from 0 to 65535, got -1", {port = -1})
      refuses("serve: port: expected an integer from 0 to 65535, got x", {port = "x"})
      refuses("serve: port: expected an integer from 0 to 65535, got 0.5", {port = 0.5})
      for _, name in ipairs {"threads", "connections", "timeout", "receive_timeout", "body", "memory", "queue",
         "backlog"} do
         refuses(("serve: %s: expected an integer from "):format(name), {[name] = 0})
         refuses(("serve: %s: expected an integer from "):format(name), {[name] = 1 << 41})
      end
      refuses("serve: address: expected a text, got 5", {address = 5})
      refuses("serve: tokens: expected a list, got x", {tokens = "x"})
      refuses("serve: tokens: expected texts, got 1", {tokens = {"a", 1}})
      refuses("serve: expected both key and certificate, got only key", {key = "x"})
      for _ = 1, 100 do -- the loop starts more servers than a process may have at the same time
         local server, message = http.start {port = 0, address = "127.0.0.1", log = "/nowhere/log"}
         assert.is_nil(server)
         assert.equal('access_log: cannot open "/nowhere/log": No such file or directory', message)
      end
      http.start {port = 0, address = "127.0.0.1"}:stop()
   end)

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
      assert.same({}, server:take(0, 8, 0.05)) -- the queue does not deliver the request a second time
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

   it("names the option, the value and the values that are allowed", function()
      local function refuses(message, options)
         options.port, options.quiet = options.port or 0, true
         assert.raises("serve.start: " .. message, function() torch.serve.start(program, options) end)
      end
      refuses("port: expected an integer from 0 to 65535, got 70000", {port = 70000})
      refuses('access_log: expected a path, got ""', {access_log = ""})
      refuses("access_log: expected a path, got ", {access_log = "a\0b"})
      refuses('access_log: cannot open "/nowhere/log": No such file or directory', {access_log = "/nowhere/log"})
      refuses("address: cannot listen on 999.999.1.1 port 0: ", {address = "999.999.1.1"})
      refuses("threads: expected an integer from 1 to 4096, got 4611686018427387904", {threads = 1 << 62})
      refuses('outputs: expected a list of different names, got ["a","a"]', {outputs = {"a", "a"}})
      refuses('outputs: expected a list of different names, got [""]', {outputs = {""}})
      refuses("outputs: expected a list of different names, got a function", {outputs = print})
      refuses('device: expected a device, got "x"', {device = "x"})
      refuses('versions: expected "latest", "all" or a list of numbers from 1, got [0]', {versions = {0}})
   end)

   it("ends a server that is not used any more, with its copies of the programs", function()
      with_folder(function(folder)
         shell.write(folder .. "/s.lua", [=[
            local torch = require "tlua"
            local program = torch.export(torch.nn.Linear(2, 3), {torch.ones(1, 2)})
            local function copies()
               return select(2, io.popen("ls -d /tmp/lua_*/" .. arg[1]):read "a":gsub("\n", ""))
            end
            local port = torch.serve.start({[arg[1]] = program}, {port = 0, quiet = true}).port
            assert(copies() == 1)
            assert(torch._connect("127.0.0.1", port, 5))
            collectgarbage()
            collectgarbage()
            assert(not torch._connect("127.0.0.1", port, 5))
            assert(copies() == 0)
            torch.serve.start({[arg[1]] = program}, {port = 0, quiet = true})
         ]=])
         local name = folder:match "[^/.]+$"
         shell.ok(("%s %s/s.lua %s 2>/dev/null"):format(shell.start(), folder, name))
         -- the process has removed its copies at its end
         assert.not_equal(0, (select(2, shell.run("ls -d /tmp/lua_*/" .. name))))
      end)
   end)

   it("says which files, versions and tables can be served", function()
      with_folder(function(folder)
         program:save(folder .. "/m.tlp")
         assert.raises("m.tlp: versions: expected some of 1, which are there, got 7", function()
            torch.serve.start(folder .. "/m.tlp", {port = 0, quiet = true, versions = {7}})
         end)
      end)
      assert.raises("README.md: expected a program (.tlp), a language model (.gguf), a model in Lua (.lua) or a "
         .. "folder of models", function()
         torch.serve.start("README.md", {port = 0, quiet = true})
      end)
      assert.raises("a table from at least one name to its program", function()
         torch.serve.start({}, {port = 0, quiet = true})
      end)
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
