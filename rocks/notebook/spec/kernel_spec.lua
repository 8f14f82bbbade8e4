-- Tests the Jupyter kernel with a client that exchanges messages with it over libzmq.

local torch = require "tlua"
local client = require "rocks.notebook.spec.client"
local json = require "tlua.utils.json"
local messages = require "tlua.notebook.messages"
local packages = require "tlua.packages"
local shell = require "spec.support.shell"

local there, why = client.available()
if not there then
   it("is tested where libzmq is installed", function() pending(why) end)
   return
end

describe("the kernel", function()
   local k

   setup(function() k = client.start() end)
   teardown(function() k:stop() end)

   it("tells its language and the version of the protocol", function()
      assert.equal("5.3", k.info.protocol_version)
      assert.equal("lua", k.info.language_info.name)
      assert.equal(".lua", k.info.language_info.file_extension)
   end)

   it("shows the value of a cell's last expression, and what the cell prints", function()
      local out, reply = k:run "local a = 6\nprint 'hi'\na * 7"
      assert.equal("hi\n", out.stdout)
      assert.same({["text/plain"] = "42"}, out.result)
      assert.equal("ok", reply.status)
      assert.same({["text/plain"] = "43"}, k:run("_ + 1").result)
   end)

   it("shows several values on one line, and nothing for statements", function()
      assert.equal("1\tnil\t3", k:run("1, nil, 3").result["text/plain"])
      assert.is_nil(k:run("x = 3").result)
      assert.is_nil(k:run("-- a comment").result)
      assert.equal("3", k:run("x -- a comment\n\n").result["text/plain"])
      assert.equal("5", k:run("return 5").result["text/plain"])
   end)

   it("keeps globals and drops locals, as the interactive mode does", function()
      k:run "local gone = 1\nkept = 2"
      assert.equal("nil\t2", k:run("gone, kept").result["text/plain"])
   end)

   it("does not split a statement that continues on the next line", function()
      assert.is_nil(k:run("f = function(x)\n   return x\nend").result)
      assert.equal("a\nb\n", k:run("s = [[\na\nb\n]]\nio.write(s)").stdout)
      assert.is_nil(k:run("s = [[\nx\n]]").result)
      assert.equal("5", k:run("f\n(5)").result["text/plain"])
   end)

   it("publishes output of C code and of other programs in the order of writing", function()
      local out = k:run "print 'a'\nos.execute 'echo b'\nprint 'c'\nio.stderr:write 'd'"
      assert.equal("a\nb\nc\n", out.stdout)
      assert.equal("d", out.stderr)
   end)

   it("publishes output while the cell runs", function()
      local id = k:send("shell", "execute_request", {code = "print 'begun'\nos.execute 'sleep 1'\nprint 'ended'"})
      local begun, idle
      repeat
         local message = assert(k:receive("iopub", 30))
         local now = torch.io.clock()
         if message.type == "stream" and message.content.text:find "begun" then begun = now end
         if message.type == "status" and message.content.execution_state == "idle" then idle = now end
      until idle
      assert.is_true(idle - begun > 0.8)
      assert.equal(id, k:receive("shell").parent.msg_id)
   end)

   it("publishes more output than a pipe holds, and bytes that are not UTF-8", function()
      local out = k:run "for i = 1, 30000 do io.write(('%09d\\n'):format(i)) end"
      assert.equal(300000, #out.stdout)
      assert.equal("a\u{FFFD}b", k:run("io.write 'a\\xFFb'").stdout)
      assert.equal("ä€", k:run("io.write '\\xC3' io.stdout:flush() os.execute 'sleep 0.1' io.write '\\xA4€'").stdout)
   end)

   it("reports an error with the user's line and traceback", function()
      local out, reply = k:run "local function f()\n   error 'bad'\nend\nf()"
      assert.matches("^In%[%d+%]:2: bad$", out.error.evalue)
      local trace = table.concat(out.error.traceback, "\n")
      assert.matches("In%[%d+%]:2: in local 'f'", trace)
      assert.not_matches("session.lua", trace, 1, true)
      assert.equal("error", reply.status)
      assert.equal(out.error.evalue, reply.evalue)
      assert.equal("SyntaxError", k:run("x = = 1").error.ename)
      assert.matches("Did you mean torch.zero", k:run("torch.zeroz(3)").error.evalue, 1, true)
      assert.matches("did you mean print?", k:run("prin(3)").error.evalue, 1, true)
      assert.equal("(error object is a table value)", k:run("error {}").error.evalue)
      assert.matches("no$", k:run("setmetatable({}, {__mime = function() error 'no' end})").error.evalue)
   end)

   it("works on after cells that remove the methods of strings, other functions, or set a failing hook", function()
      local function works()
         assert.equal("3", k:run("1 + 2").result["text/plain"])
         assert.equal("{1, a = 2}", k:run("{1, a = 2}").result["text/plain"])
         assert.matches("]:1: e$", k:run("error 'e'").error.evalue)
      end
      assert.is_nil(k:run("format = string.format string.format = nil").error)
      works()
      assert.matches("'format'", k:run("('%d'):format(1)").error.evalue, 1, true)
      assert.equal("1", k:run("display(1)").displays[1].data["text/plain"])
      assert.is_nil(k:run("string.format = format function string.twice(s) return s .. s end").error)
      assert.equal("abab", k:run("setmetatable({}, {__tostring = function() return ('ab'):twice() end})")
         .result["text/plain"])
      k:run "index = getmetatable('').__index getmetatable('').__index = nil"
      works()
      k:run "getmetatable('').__index = index meta = debug.getmetatable('') debug.setmetatable('', nil)"
      works()
      k:run "debug.setmetatable('', meta) debug.setmetatable(nil, {__index = function() error 'nil' end})"
      works()
      k:run "debug.setmetatable(nil, nil) debug.sethook(function() error 'hook' end, 'l')"
      works()
      k:run "saved = {print, pcall, type, tostring} print, pcall, type, tostring = nil"
      works()
      k:run "print, pcall, type, tostring = table.unpack(saved)"
      assert.equal("1", k:run("('%d'):format(1)").result["text/plain"])
   end)

   it("answers os.exit with an error, and an error whose text is no text", function()
      assert.matches("]:1: os.exit(3): a cell cannot end the process", k:run("os.exit(3)").error.evalue, 1, true)
      assert.equal("(error object without a text)",
         k:run("error(setmetatable({}, {__tostring = function() return {} end}))").error.evalue)
      assert.equal("(error object is a nil value)", k:run("error(nil)").error.evalue)
   end)

   it("aborts the requests that follow a failed cell", function()
      local ids = {}
      for i, code in ipairs {"error 'first'", "after = true", "after = true"} do
         ids[i] = k:send("shell", "execute_request", {code = code, stop_on_error = true})
      end
      local states = {}
      for i = 1, 3 do
         local reply = k:receive "shell"
         assert.equal(ids[i], reply.parent.msg_id)
         states[i] = reply.content.status
      end
      assert.same({"error", "aborted", "aborted"}, states)
      k:outputs(ids[3])
      assert.equal("nil", k:run("after").result["text/plain"])
   end)

   it("completes names, fields, methods and options", function()
      local function complete(code, at)
         local reply = k:request("complete_request", {code = code, cursor_pos = at or utf8.len(code)})
         return reply
      end
      local reply = complete "x = torch.zeros_l"
      assert.same({{"torch.zeros_like"}, 4, 17}, {{table.unpack(reply.matches)}, reply.cursor_start, reply.cursor_end})
      reply = complete "'ä€' .. torch.ones_l"
      assert.same({8, 20}, {reply.cursor_start, reply.cursor_end})
      assert.same({"torch.ones_like"}, {table.unpack(reply.matches)})
      reply = complete("stri rest", 4)
      assert.same({"string"}, {table.unpack(reply.matches)})
      assert.same({"bias"}, {table.unpack(complete("nn.Linear(3, 1, {bi").matches)})
      assert.equal(0, #complete("no.such.thing").matches)
   end)

   it("inspects functions and variables", function()
      local function inspect(code, at)
         return k:request("inspect_request", {code = code, cursor_pos = at or utf8.len(code), detail_level = 0})
      end
      assert.matches("torch.add", inspect("torch.add").data["text/plain"], 1, true)
      assert.matches("torch.add", inspect("torch.add(1, ").data["text/plain"], 1, true)
      assert.matches("nn.Linear", inspect("nn.Linear(3", 5).data["text/plain"], 1, true)
      k:run "t = torch.ones(2)"
      assert.matches("Tensor", inspect("t").data["text/plain"], 1, true)
      assert.is_false(inspect("no_such_name").found)
      assert.is_false(inspect("").found)
   end)

   it("tells whether code is complete", function()
      local function status(code)
         local reply = k:request("is_complete_request", {code = code})
         return reply.status
      end
      for code, expected in pairs {["x = 1"] = "complete", ["for i = 1, 2 do"] = "incomplete", ["x = = 1"] = "invalid",
         ["y = 1\ny"] = "complete", ["f("] = "incomplete"} do
         assert.equal(expected, status(code))
      end
   end)

   it("keeps a history", function()
      k:run "first_of_history = 1"
      k:run "first_of_history + 1"
      local tail = k:request("history_request", {hist_access_type = "tail", n = 2, output = true, raw = true}).history
      assert.equal("first_of_history = 1", tail[1][3][1])
      assert.same({"first_of_history + 1", "2"}, {table.unpack(tail[2][3])})
      local found = k:request("history_request", {hist_access_type = "search", pattern = "first_of*+*", n = 9}).history
      assert.equal(1, #found)
   end)

   it("evaluates expressions for the client, and runs silent cells without a number", function()
      local _, reply = k:run("u = 5", {user_expressions = {a = "u + 1", b = "nope.x"}})
      assert.equal("6", reply.user_expressions.a.data["text/plain"])
      assert.equal("error", reply.user_expressions.b.status)
      local out, silent = k:run("print 'x'\n3", {silent = true, store_history = false})
      assert.equal(reply.execution_count, silent.execution_count)
      assert.is_nil(out.result)
   end)

   it("shows tensors, images, figures, models and HTML", function()
      local html = k:run("torch.arange(6):view(2, 3)").result["text/html"]
      assert.matches("(2, 3) int64", html, 1, true)
      assert.equal(6, select(2, html:gsub("<td", "")))
      local large = k:run("torch.zeros(1000, 1000)").result["text/html"]
      assert.is_true(#large < 20000)
      if packages.has "tlua.plot" then
         assert.matches("^iVBOR", k:run("torch.rand(3, 8, 8)").result["image/png"])
         assert.matches("^<svg", k:run("torch.utils.plot.curves {1, 2}").result["image/svg+xml"])
      end
      assert.matches("<details open.*Linear.*9 parameters", k:run("nn.Sequential(nn.Linear(2, 3))").result["text/html"])
      assert.equal("<i>x</i>", k:run("display_html '<i>x</i>'").displays[1].data["text/html"])
      assert.equal("own", k:run(
         "setmetatable({}, {__mime = function() return {['text/latex'] = 'own'} end})").result["text/latex"])
      assert.is_nil(k:run("torch.rand(2, 3, 4)").result["text/html"])
      assert.is_nil(k:run("torch.zeros(0, 3)").result["text/html"])
   end)

   it("replaces displays and progress bars in place", function()
      local out = k:run "local h = display 'one'\nh:update 'two'"
      assert.equal(out.displays[1].transient.display_id, out.updates[1].transient.display_id)
      assert.equal("two", out.updates[1].data["text/plain"])
      assert.is_nil(k:run("display 'one'").result)
      out = k:run "for _ in torch.utils.Progress({total = 3, interval = 0}):each(3) do end"
      assert.equal(1, #out.displays)
      assert.matches("100%", out.updates[#out.updates].data["text/plain"], 1, true)
   end)

   it("asks the front end for io.read", function()
      local id = k:send("shell", "execute_request", {code = "local a, n = io.read(), io.read 'n'\na, n",
         allow_stdin = true})
      for _, answer in ipairs {"a line", "12"} do
         local ask = assert(k:receive("stdin", 30))
         assert.equal("input_request", ask.type)
         k.parent = ask.header
         k:send("stdin", "input_reply", {value = answer})
         k.parent = nil
      end
      local reply = k:receive("shell", 30)
      local out = k.sort(reply.content, k:outputs(id))
      assert.equal("a line\t12", out.result["text/plain"])
      assert.matches("no input", k:run("io.read()").error.evalue)
   end)

   it("closes comms, since it has no targets for them", function()
      local id = k:send("shell", "comm_open", {comm_id = "c", target_name = "t", data = {}})
      local outputs = k:outputs(id)
      assert.equal("comm_close", outputs[1].type)
      assert.same({}, (k:request("comm_info_request", {})).comms)
   end)

   it("answers the heartbeat while a cell runs", function()
      local id = k:send("shell", "execute_request", {code = "os.execute 'sleep 3'"})
      k.hb:send {"ping"}
      assert.is_true(torch._kernel.poll({k.hb}, 2000)[1])
      assert.same({"ping"}, k.hb:take())
      k:receive("shell", 30)
      k:outputs(id)
   end)

   local loops = {
      Lua = "while true do end", operators = "local a = torch.rand(600, 600)\nwhile true do a = a:matmul(a) end",
      ["a coroutine"] = "coroutine.wrap(function() while true do end end)()",
   }
   for name, code in pairs(loops) do
      it("is interrupted by a message in " .. name, function()
         local id = k:send("shell", "execute_request", {code = code, stop_on_error = false})
         os.execute "sleep 0.3"
         k:send("control", "interrupt_request", {})
         assert.equal("interrupt_reply", k:receive("control", 30).type)
         local reply = assert(k:receive("shell", 30))
         assert.equal("Interrupted", reply.content.ename)
         k:outputs(id)
         assert.equal("2", k:run("1 + 1").result["text/plain"])
      end)
   end

   it("stops a cell on a signal, and ignores signals between cells", function()
      local id = k:send("shell", "execute_request", {code = "while true do end"})
      os.execute "sleep 0.3"
      shell.ok("kill -INT " .. k.pid)
      assert.equal("Interrupted", assert(k:receive("shell", 30)).content.ename)
      k:outputs(id)
      for _ = 1, 5 do
         shell.ok("kill -INT " .. k.pid)
         os.execute "sleep 0.05"
      end
      assert.equal("2", k:run("1 + 1").result["text/plain"])
   end)

   it("refuses messages with a wrong signature", function()
      k:send("shell", "execute_request", {code = "forged = true"}, "another key")
      k:send("shell", "execute_request", {code = "forged = true"}, "")
      k:send("control", "shutdown_request", {restart = false}, "another key")
      assert.equal("nil", k:run("forged").result["text/plain"])
   end)

   it("keeps running after malformed messages", function()
      local signed = messages.pack(k.key, {type = "execute_request", content = {}}, k.session)
      local function with(at, text)
         local frames = {table.unpack(signed)}
         frames[at] = text
         if at > 2 then frames[2] = torch._kernel.hmac(k.key, table.concat(frames, "", 3, 6)) end
         return frames
      end
      local deep = ("["):rep(5000)
      for _, frames in ipairs {{""}, {"x", "y"}, {"<IDS|MSG>"}, {"<IDS|MSG>", "", "{}", "{}", "{}", "{}"},
         with(3, "{"), with(3, "[]"), with(3, "{}"), with(3, '{"msg_type": 3}'), with(3, "null"), with(6, deep),
         with(6, "[1]"), with(6, "\xFF"), with(4, "3"), with(3, '{"msg_type": "no_such_request"}')} do
         k.shell:send(frames)
         k.control:send(frames)
      end
      for _, content in ipairs {{}, {code = 3}, {code = json.null}, {code = json.as_array {}}} do
         local reply = k:request("execute_request", content)
         assert.matches("code: expected a string", reply.evalue)
         assert.equal("error", k:request("complete_request", content).status)
         assert.equal("error", k:request("inspect_request", content).status)
         assert.equal("error", k:request("is_complete_request", content).status)
      end
      local reply = k:request("complete_request", {code = "prin", cursor_pos = 1 << 40})
      assert.equal("print", reply.matches[1])
      assert.equal("ok", k:request("complete_request", {code = "", cursor_pos = -5}).status)
      assert.equal("ok", k:request("history_request", {hist_access_type = 3}).status)
      assert.equal("2", k:run("1 + 1").result["text/plain"])
   end)
end)

describe("a kernel", function()
   it("ends on request, also while a cell runs, and over TCP", function()
      local k = client.start {transport = "tcp"}
      assert.equal("2", k:run("1 + 1").result["text/plain"])
      k:send("shell", "execute_request", {code = "while true do end"})
      os.execute "sleep 0.3"
      k:send("control", "shutdown_request", {restart = true})
      local reply = assert(k:receive("control", 30))
      assert.equal("shutdown_reply", reply.type)
      assert.is_true(reply.content.restart)
      assert.is_true(k:ended(20))
      assert.equal("", k:stop())
   end)

   it("ends on request even if the cell catches the interrupt", function()
      local k = client.start()
      k:send("shell", "execute_request", {code = "while true do pcall(function() while true do end end) end"})
      os.execute "sleep 0.3"
      k:send("control", "shutdown_request", {restart = false})
      assert.is_true(k:ended(30))
      k:stop()
   end)

   it("ends on a request on the shell channel", function()
      local k = client.start()
      assert.equal("ok", k:request("shutdown_request", {restart = false}).status)
      assert.is_true(k:ended(20))
      k:stop()
   end)

   it("ends after the process that has started it", function()
      if not io.open "/proc/self/stat" then return pending "needs /proc" end
      local k = client.start {parent = true}
      assert.equal("2", k:run("1 + 1").result["text/plain"])
      k:send("shell", "execute_request", {code = "while true do end"})
      shell.ok("kill " .. k.parent_pid)
      assert.is_true(k:ended(20))
      k:stop()
   end)

   it("refuses to end libzmq's context while a socket is open", function()
      local _ <close> = assert(torch._kernel.socket(3))
      assert.raises("finish: expected that all sockets are closed, ", "open",
         function() torch._kernel.finish() end)
   end)

   it("refuses a damaged connection file", function()
      shell.with_folder(function(folder)
         local function try(text)
            shell.write(folder .. "/c.json", text)
            return (shell.run(("%s notebook kernel %s/c.json 2>&1"):format(shell.start(), folder)))
         end
         assert.matches("c.json: at byte 1", try "x")
         assert.matches("shell_port: expected a port", try "{}")
         assert.matches('signature_scheme: expected "hmac%-sha256", got "md5"', try [[{"shell_port": 1, "iopub_port": 2,
            "stdin_port": 3, "control_port": 4, "hb_port": 5, "transport": "tcp", "ip": "127.0.0.1", "key": "k",
            "signature_scheme": "md5"}]])
         assert.matches("in use", try(([[{"shell_port": %d, "iopub_port": 2, "stdin_port": 3, "control_port": 4,
            "hb_port": 5, "transport": "tcp", "ip": "127.0.0.1", "key": "k"}]]):format(
            assert(torch._listen "127.0.0.1"):port())):lower())
      end)
   end)
end)
