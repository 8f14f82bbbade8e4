-- Tests the interactive mode with lines that come from a pipe.

local session = require "spec.main.session"
local ask = session.ask

describe("the interactive mode", function()
   describe("shows", function()
      it("the values of expressions", function()
         assert.equal("2\n", ask "1 + 1\n")
         assert.equal("1\tnil\ttrue\n", ask "1, nil, true\n")
         assert.equal("nil\n", ask "nil\n")
         assert.equal("7\n", ask "=7\n")
      end)

      it("nothing for statements and calls without results", function()
         assert.equal("", ask "x = 1\n(function() end)()\n\n-- comment\n;\n")
      end)

      it("strings as they are, and quoted inside tables", function()
         assert.equal("a b\n", ask "'a b'\n")
         assert.equal('{"a b", key = "c"}\n', ask "{'a b', key = 'c'}\n")
      end)

      it("tensors as tostring does", function()
         local define = "x = torch.ones(2, 2)\n"
         assert.equal((ask(define .. "print(x)\n")), (ask(define .. "x\n")))
      end)

      it("values with the global print", function()
         assert.equal("<4>\n", ask "p = print; function print(x) p('<' .. x .. '>') end\n4\n")
         local out, err = ask "print = nil\n1\n2\n"
         assert.equal("", out)
         assert.matches("error calling 'print' %(attempt to call a nil value%)", err)
      end)
   end)

   it("suggests a name for a function that does not exist", function()
      local function complaint(line) return select(2, ask(line .. "\n")) end
      assert.matches("no field 'zeross'%. Did you mean torch%.zeros%?\n", complaint "torch.zeross(3)")
      assert.matches("Did you mean torch%.nn%.Linear%?", complaint "y = nn.linaer(3, 4)")
      assert.matches("did you mean print%?", complaint "prnt(1)")
      assert.matches("did you mean format%?", complaint "string.formt('x')")
      assert.matches("field 'sume'.*did you mean 'sum'%?", complaint "torch.ones(2):sume()")
      assert.not_matches("did you mean", complaint "local t = {}; t.unheard_of()")
   end)

   it("keeps the last value in _", function()
      assert.equal("5\n6\n12\n", ask "5\n_ + 1\n_ * 2\n")
      assert.equal("1\t2\n1\n", ask "1, 2\n_\n")
      assert.equal("5\n5\n", ask "5\nx = 7\n_\n")
   end)

   it("runs a line only once, although it tries it as an expression first", function()
      assert.equal("1\n", ask "n = 0; function f() n = n + 1; error('x') end\nf()\nn\n")
      assert.equal("1\n1\n", ask "n = 0; function f() n = n + 1; return n end\nf()\nn\n")
   end)

   describe("takes several lines", function()
      it("of statements", function()
         assert.equal("1\n2\n", ask "for i = 1, 2 do\nprint(i)\nend\n")
         assert.equal("10\n", ask "a =\n10\na\n")
         assert.equal("b\nc\n", ask "a = [[b\nc]]\na\n")
      end)

      it("of an expression, whose value it shows", function()
         assert.equal("{1, 2}\n", ask "{\n1,\n2}\n")
         assert.equal("3\n", ask "1 +\n2\n")
         assert.equal("5\n", ask "math.max(\n5\n)\n")
      end)

      it("and reports an end of input within them", function()
         local out, err = ask "for i = 1, 2 do\n"
         assert.equal("", out)
         assert.matches("'end' expected [^\n]*near <eof>", err)
      end)
   end)

   describe("survives", function()
      it("errors, and shows their traceback", function()
         local out, err = ask "error 'boo'\n1\n"
         assert.equal("1\n", out)
         assert.matches("^stdin:1: boo\nstack traceback:\n", err)
      end)

      it("errors of the library, and names their line, in an expression too", function()
         local _, err = ask "nn.Linear(3)\n"
         assert.matches("^stdin:1: nn%.Linear: out_features is missing", err)
      end)

      it("mistakes in the syntax", function()
         local out, err = ask "x x\n'a\n1\n"
         assert.equal("1\n", out)
         assert.matches("^stdin:1: syntax error near 'x'\n", err)
         assert.matches("unfinished string", err)
      end)

      it("endless recursion", function()
         local out, err = ask "function f() return 1 + f() end\nf()\n1\n"
         assert.equal("1\n", out)
         assert.matches("stack overflow", err)
      end)

      it("values that cannot be shown", function()
         local out = ask [[
            setmetatable({}, {__tostring = function() error "x" end})
            {setmetatable({}, {__tostring = function() return {} end})}
            {setmetatable({}, {__tostring = function() return 7 end})}
            setmetatable({}, {__name = 7, __pairs = error, __len = error, __index = error})
            1
         ]]
         local failed = "<table: its __tostring failed>"
         assert.equal(("%s\n{%s}\n{7}\n{}\n1\n"):format(failed, failed), out)
      end)

      it("a broken environment, with the usual prompt", function()
         assert.matches("^1\n> 2\n", ask [[
            local _ = setmetatable(_G, {__index = error, __newindex = error})
            1
            _PROMPT = setmetatable({}, {__tostring = error})
            2
         ]])
      end)
   end)

   it("has prompts that a program may change", function()
      local result = session.run("-i", {input = "_PROMPT = 'a'\n_PROMPT2 = 'b'\nf(\n"})
      assert.matches("\n> aaba\n$", result.out)
      local counting = "n = 0 _PROMPT = setmetatable({}, {__tostring = function() " ..
         "n = n + 1 return tostring(n) end})"
      assert.matches("\n123\n$", session.run(("-e '%s' -i"):format(counting), {input = "\n\n"}).out)
   end)

   it("has the library as globals", function()
      assert.equal("true\ttrue\n", ask "nn == torch.nn, optim == torch.optim\n")
      assert.equal("true\n", ask "rawget(_G, 'torch') ~= nil\n")
   end)

   it("ends at the end of input, or by os.exit", function()
      assert.equal(3, session.run("-i", {input = "os.exit(3)\n1\n"}).status)
      assert.equal(0, session.run("-i", {input = "1"}).status)
   end)

   it("keeps no history if stdin is no terminal", function()
      local shell = require "spec.support.shell"
      shell.with_folder(function(folder)
         session.ask("1\n", "XDG_STATE_HOME=" .. shell.quote(folder))
         assert.equal("", shell.ok("ls " .. shell.quote(folder)))
      end)
   end)

   describe("helps", function()
      it("with how to begin", function() assert.matches("Ctrl%-D leaves", (ask "help()\n")) end)

      it("with the manual's text on a function or a name", function()
         assert.matches("torch%.add", (ask "help(torch.add)\n"))
         assert.equal((ask "help(torch.add)\n"), (ask "help 'torch.add'\n"))
         assert.matches("nn%.Linear", (ask "help 'nn.Linear'\n"))
      end)
   end)
end)
