-- Tests the command line of `tlua`, which has the same options as that of `lua`.

local session = require "spec.main.session"
local shell = require "spec.support.shell"

local run, script = session.run, session.script

describe("tlua", function()
   describe("runs a script", function()
      it("whose first line requires a module of the library", function()
         local program = 'local text = require "tlua.text"; print(text == torch.text, require "tlua" == torch)'
         assert.equal("true\ttrue\n", run("-", {input = program}).out)
      end)

      it("and passes it the arguments", function()
         local result = script("print(...) print(#arg, arg[1], arg[2])", "one 'two words'")
         assert.equal("one\ttwo words\n2\tone\ttwo words\n", result.out)
         assert.equal(0, result.status)
      end)

      it("and lists its name and the options before it in arg", shell.in_folder(function(folder)
         local path = folder .. "/a.lua"
         shell.write(path, "print(arg[0], arg[-1], arg[-2], arg[-3], arg[-4], arg[2])")
         local result = run("-e 'x = 1' " .. shell.quote(path) .. " a")
         assert.equal(("%s\tx = 1\t-e\t%s\tnil\tnil\n"):format(path, shell.tlua), result.out)
      end))

      it("whose first line starts with #!", function()
         assert.equal("1\n", script("#!/usr/bin/env tlua\nprint(1)").out)
      end)

      it("from stdin", function()
         assert.equal("12\n", run("", {input = "print(12)"}).out)
         assert.equal("-h\tx\n", run("- -h x", {input = "print(...)"}).out)
      end)

      it("with the table `arg` as changed by -e", function()
         assert.equal("100\n", run("-e 'arg[1] = 100' -", {input = "print(...)"}).out)
         local result = run("-e 'arg = 1' -", {input = "print(1)"})
         assert.matches("'arg' is not a table", result.err)
         assert.equal(1, result.status)
      end)

      it("from a file named - only after --", function()
         local result = run("-- -", {input = "print(1)"})
         assert.matches("cannot open %-", result.err)
      end)

      it("that luac has compiled", function() assert.equal("3\n", script(string.dump(load("print(3)"))).out) end)
   end)

   describe("ends with status", function()
      it("0 after success", function() assert.equal(0, script("").status) end)

      it("1 after an error", function()
         assert.equal(1, script("error('x')").status)
         assert.equal(1, script("x x").status)
         assert.equal(1, run("no-such-file.lua").status)
         assert.equal(1, run("", {input = "error('x')"}).status)
      end)

      it("given to os.exit", function()
         assert.equal(7, script("os.exit(7)").status)
         assert.equal(0, script("os.exit(true, true)").status)
         assert.equal(1, script("os.exit(false, true)").status)
      end)
   end)

   describe("reports an error", function()
      it("with the right line where Torch7's model:training() was called", function()
         local result = script("local layer = torch.nn.ReLU()\nlayer:training()")
         assert.matches("script.lua:2: attempt to call a boolean value (method 'training'); "
            .. "a module's training is true or false: write m:train() or m:eval()\n",
            result.err, 1, true)
      end)

      it("with its name, the line and a traceback, on stderr", function()
         local result = script("local function f()\n  error('boo')\nend\nf()")
         assert.equal("", result.out)
         local name = shell.tlua:gsub("%p", "%%%0")
         assert.matches("^" .. name .. ": [^\n]*script.lua:2: boo\nstack traceback:\n", result.err)
         assert.matches("script.lua:2: in [^\n]*'f'", result.err)
         assert.matches("script.lua:4: in main chunk", result.err)
      end)

      it("after the output printed before the error", function()
         local program = shell.quote 'io.write("one ") error("two", 0)'
         local output = shell.run(shell.quote(shell.tlua) .. " -e " .. program)
         assert.matches("^one .*two", output)
      end)

      it("that is an object, by the object's __tostring", function()
         local result = script("error(setmetatable({}, {__tostring = function() return 'E7' end}))")
         assert.equal(shell.tlua .. ": E7\n", result.err)
      end)

      it("that is another value, by the value's type", function()
         assert.matches("error object is a table value", script("error {}").err)
         assert.matches("error object is a nil value", script("error()").err)
         assert.matches("error object is a boolean value", script("error(false)").err)
      end)

      it("in the syntax, with the line", function()
         assert.matches("script.lua:2: .*near 'x'", script("\nx x").err)
      end)
   end)

   describe("with options", function()
      it("runs several -e in order", function()
         assert.equal("1\n3\n", run([["-eprint(1)" -ea=3 -e "print(a)"]]).out)
      end)

      it("does not read stdin after -e", function()
         assert.equal("1\n", run("-e 'print(1)'", {input = "print(2)"}).out)
      end)

      it("runs -e before the script", shell.in_folder(function(folder)
         shell.write(folder .. "/a.lua", "print(x)")
         assert.equal("5\n", run("-e 'x = 5' " .. shell.quote(folder .. "/a.lua")).out)
      end))

      it("loads a module with -l, with and without a name for the global", function()
         local result = run("-l str=string -lm=math -e 'print(str.upper(\"a\"), m.max(1, 2))'")
         assert.equal("A\t2\n", result.out)
         shell.with_folder(function(folder)
            shell.write(folder .. "/lib-v2.lua", "return {name = ...}")
            local env = "LUA_PATH=" .. shell.quote(folder .. "/?.lua")
            assert.equal("lib-v2\n", run("-l lib-v2 -e 'print(lib.name)'", {env = env}).out)
         end)
      end)

      it("reports a missing module of -l as an error", function()
         local result = run("-l no_such_module -e 'print(1)'")
         assert.equal(1, result.status)
         assert.equal("", result.out)
         assert.matches("module 'no_such_module' not found", result.err)
      end)

      it("prints its version with -v", function()
         local result = run("-v")
         assert.matches("^tlua %d+%.%d+%.%d+, Lua 5%.[45][^\n]*PUC%-Rio\n$", result.out)
         assert.matches("PUC%-Rio\nhello\n$", run("-v -e 'print \"hello\"'").out)
      end)

      it("stays interactive after a script with -i", shell.in_folder(function(folder)
         shell.write(folder .. "/a.lua", "y = 11")
         local result = run("-i " .. shell.quote(folder .. "/a.lua"), {input = "y + 1\n"})
         assert.matches("> 12\n", result.out)
         assert.equal(0, result.status)
      end))

      it("prints warnings, with and without -W, until a script turns them off", function()
         local program = "warn('@off') warn('no') warn('@on') warn('a', 'b')"
         assert.equal("Lua warning: ab\n", run("-W -e \"" .. program .. "\"").err)
         assert.equal("Lua warning: x\n", run("-e \"warn('x')\"").err)
         assert.equal("", run("-e \"warn('@off') warn('x')\"").err)
      end)

      it("ignores environment variables with -E", function()
         local env = "LUA_INIT='error(10)' LUA_PATH=xxx LUA_CPATH=yyy"
         local result = run("-E -e 'print(package.path, package.cpath)'", {env = env})
         assert.equal(0, result.status)
         assert.not_matches("xxx", result.out)
         assert.not_matches("yyy", result.out)
      end)

      it("prints its usage with --help and its version with --version", function()
         local help = run("--help")
         assert.equal(0, help.status)
         assert.matches("^usage: .*%-e stat", help.out)
         assert.matches("^tlua %d", run("--version").out)
      end)
   end)

   describe("refuses the options", function()
      for _, case in ipairs {
         {"-h", "unrecognized option '-h'"},
         {"---", "unrecognized option '---'"},
         {"-Ex", "unrecognized option '-Ex'"},
         {"-vv", "unrecognized option '-vv'"},
         {"-iv", "unrecognized option '-iv'"},
         {"-e", "'-e' needs argument"},
         {"-e -v", "'-e' needs argument"},
         {"-l", "'-l' needs argument"},
         {"-e 'print(1)' -x", "unrecognized option '-x'"},
      } do
         it(case[1], function()
            local result = run(case[1])
            assert.equal("", result.out)
            assert.truthy(result.err:find(case[2], 1, true), result.err)
            assert.matches("\nusage: ", result.err)
            assert.equal(1, result.status)
         end)
      end
   end)

   describe("runs LUA_INIT", function()
      it("before everything else, with `arg`", function()
         local env = "LUA_INIT='x = tonumber(arg[1])'"
         assert.equal("3.5\n", run("- 3.5", {env = env, input = "print(x)"}).out)
      end)

      it("from the file after @", shell.in_folder(function(folder)
         shell.write(folder .. "/init.lua", "x = 10")
         local env = "LUA_INIT=" .. shell.quote("@" .. folder .. "/init.lua")
         assert.equal("10\n", run("-e 'print(x)'", {env = env}).out)
      end))

      it("from the variable with Lua's version first", function()
         local env = ("LUA_INIT='x = 1' LUA_INIT_%s='x = 2'"):format((_VERSION:match("%d.%d"):gsub("%.", "_")))
         assert.equal("2\n", run("-e 'print(x)'", {env = env}).out)
      end)

      it("and stops at its error", function()
         local result = run("-e 'print(1)'", {env = "LUA_INIT='error(\"msg\")'"})
         assert.matches("LUA_INIT:1: msg", result.err)
         assert.equal("", result.out)
         assert.equal(1, result.status)
      end)
   end)

   it("reads LUA_PATH, its versioned form first", function()
      local env = "LUA_PATH_5_4=y LUA_PATH_5_5=y LUA_PATH=x"
      assert.equal("y\n", run("-e 'print(package.path)'", {env = env}).out)
   end)

   it("collects garbage generationally, as lua does", function()
      assert.equal("generational\n", run("-e 'print(collectgarbage \"incremental\")'").out)
   end)

   it("closes variables and runs finalizers at its end", function()
      local result = script([[
         local x <close> = setmetatable({}, {__close = function() print "closed" end})
         setmetatable({}, {__gc = function() print "collected" end})
      ]])
      assert.equal("closed\ncollected\n", result.out)
   end)

   it("starts the launcher with `tlua run`", function()
      local result = run("run x.lua")
      assert.equal(1, result.status)
      assert.matches("rank 0 was the first to fail, with status 1:.*cannot open", result.err)
   end)
end)

describe("a file that reaches the limit of its size", function()
   it("raises an error at the write and does not end the program", shell.in_folder(function(folder)
      shell.write(folder .. "/a.lua", [[
            local ok, message = pcall(torch.save, {x = torch.ones(100000)}, arg[1])
            print(ok, message)
            print(os.execute "ulimit -f 8; head -c 100000 /dev/zero >$OUT 2>/dev/null")]])
      local out, status = shell.run(("ulimit -f 80; OUT=%s/b %s %s/a.lua %s/x.safetensors 2>&1"):format(
         folder, shell.start(), folder, folder))
      assert.equal(0, status)
      assert.matches("^false\t[^\n]*save: [^\n]*x.safetensors: File too large\n", out)
      -- programs that the script starts do not get this setting
      assert.matches("\nnil\t%a+\t%d+\n$", out)
   end))
end)
