-- Tests notebooks that run without Jupyter, displays, and the command `tlua notebook`.

local torch = require "tlua"
local chunk = require "tlua.repl.chunk"
local html = require "tlua.notebook.html"
local json = require "tlua.utils.json"
local messages = require "tlua.notebook.messages"
local packages = require "tlua.packages"
local shell = require "spec.support.shell"

-- Returns a notebook with the given code cells, as the text of a file.
local function notebook(...)
   local cells = json.as_array {{cell_type = "markdown", source = "# title", metadata = {}}}
   for _, source in ipairs {...} do
      cells[#cells + 1] = {cell_type = "code", source = source, outputs = json.as_array {}, metadata = {},
         execution_count = json.null}
   end
   return json.encode {cells = cells, metadata = {}, nbformat = 4, nbformat_minor = 5}
end

local function tlua(arguments) return shell.run(shell.start() .. " notebook " .. arguments) end

-- Runs a notebook in a separate process. Returns its cells, the command's output and the exit status.
local function run(text, options)
   return shell.with_folder(function(folder)
      local path = folder .. "/n.ipynb"
      shell.write(path, text)
      local output, status = tlua(("run %s %s"):format(options or "", path))
      return json.decode(shell.read(path)).cells, output, status
   end)
end

describe("tlua notebook run", function()
   it("writes the outputs of cells into the file", function()
      local cells, output, status = run(notebook("print 'a'\nos.execute 'echo b'\nx = torch.ones(2)\nx", "",
         "x:sum():item()"))
      assert.equal(0, status)
      assert.matches("n.ipynb: cell 2 of 4\n", output, 1, true)
      assert.same({"a\n", "b\n"}, cells[2].outputs[1].text)
      assert.equal("execute_result", cells[2].outputs[2].output_type)
      assert.equal("tensor([1., 1.])", cells[2].outputs[2].data["text/plain"][1])
      assert.matches("<table", cells[2].outputs[2].data["text/html"][1])
      assert.equal(json.null, cells[3].execution_count)
      assert.equal(2, cells[4].execution_count)
      assert.equal("2.0", cells[4].outputs[1].data["text/plain"][1])
   end)

   it("keeps the outputs of cells before os.exit, and after changes of the methods of strings", function()
      local cells, output, status = run(notebook("print 'before'", "os.exit(3)"))
      assert.equal(1, status)
      assert.matches("cell 3: In[2]:1: os.exit(3): a cell cannot end the process of a notebook", output, 1, true)
      assert.equal("before\n", cells[2].outputs[1].text[1])
      cells, output, status = run(notebook("string.format = nil table.concat = nil getmetatable('').__index = nil",
         "{1}"))
      assert.equal(0, status, output)
      assert.equal("{1}", cells[3].outputs[1].data["text/plain"][1])
   end)

   it("refuses other files with the path, what was expected and what came, and leaves them alone", function()
      local cell = '"cells":[{"cell_type":"code","source":"1","outputs":[]}]'
      for text, message in pairs {
         [""] = "at byte 1: the text ends too early",
         ["[]"] = "expected a notebook, a JSON object with nbformat, got a list",
         ['{"nbformat":3,"worksheets":[]}'] = "expected nbformat 4, got 3",
         ['{"nbformat":4}'] = "cells: expected a list, got nothing",
         ['{"nbformat":4,"cells":{}}'] = "cells: expected a list, got an object",
         ['{"nbformat":4,"cells":[7]}'] = "cell 1: source: expected a text or a list of lines, got 7",
         ['{"nbformat":4,"cells":[{"source":"1"}]}'] = "cell 1: cell_type: expected a text, got nothing",
         ['{"nbformat":4,"cells":[{"cell_type":"code","source":[null]}]}'] =
            "cell 1: source: expected lines of text, got null",
         ['{"nbformat":4,"metadata":"x",' .. cell .. "}"] = "metadata: expected an object, got a text",
         ['{"nbformat":4,"metadata":{"kernelspec":{"language":"python"}},' .. cell .. "}"] =
            'metadata: kernelspec: language: expected "lua", got "python"',
      } do
         shell.with_folder(function(folder)
            local path = folder .. "/n.ipynb"
            shell.write(path, text)
            local output, status = tlua("run " .. path)
            assert.equal(1, status)
            assert.matches("notebook.run: " .. path .. ": " .. message, output, 1, true)
            assert.equal(text, shell.read(path))
            output, status = tlua("run " .. folder)
            assert.equal(1, status)
            assert.matches(folder .. ": expected a notebook, an .ipynb file: Is a directory", output, 1, true)
         end)
      end
      local cells = run('{"nbformat":4,"metadata":[],' .. cell .. "}")
      assert.equal("1", cells[1].outputs[1].data["text/plain"][1])
   end)

   it("stops at the first error, or goes on", function()
      local cells, output, status = run(notebook("error 'bad'", "print 'next'"))
      assert.equal(1, status)
      assert.matches("cell 2: In[1]:1: bad", output, 1, true)
      assert.equal("error", cells[2].outputs[1].output_type)
      assert.equal(0, #cells[3].outputs)
      cells = run(notebook("error 'bad'", "print 'next'"), "--allow-errors")
      assert.equal("next\n", cells[3].outputs[1].text[1])
   end)

   it("writes nothing with --check, and stores stderr and replaced displays in the cells that made them", function()
      local text = notebook "print(1)"
      shell.with_folder(function(folder)
         shell.write(folder .. "/n.ipynb", text)
         local _, status = tlua("run --check " .. folder .. "/n.ipynb")
         assert.equal(0, status)
         assert.equal(text, shell.read(folder .. "/n.ipynb"))
      end)
      local cells = run(notebook("h = display 'one' print 'x' io.stderr:write 'e'", "h:update 'two'"))
      assert.equal("two", cells[2].outputs[1].data["text/plain"][1])
      assert.equal("x\n", cells[2].outputs[2].text[1])
      assert.equal("stderr", cells[2].outputs[3].name)
      assert.equal(0, #cells[3].outputs)
   end)

   it("gives io.read no input", function()
      local _, output = run(notebook "io.read()")
      assert.matches("this notebook runs without a user", output, 1, true)
   end)

   it("writes files that nbformat validates", function()
      local python = os.getenv "NOTEBOOK_PYTHON" or "python3"
      local _, status = shell.run(python .. " -c 'import nbformat'")
      if status ~= 0 then return pending "Python has no nbformat" end
      shell.with_folder(function(folder)
         local path = folder .. "/n.ipynb"
         shell.write(path, notebook("display_html 'x'", "error 'e'"))
         tlua("run --allow-errors " .. path)
         local script = "import nbformat, sys; nbformat.validate(nbformat.read(sys.argv[1], 4))"
         shell.ok(("%s -W ignore -c '%s' %s"):format(python, script, path))
      end)
   end)

   it("refuses files that are not notebooks", function()
      local cases = {
         ["x"] = "n.ipynb: at byte 1: expected a value",
         ["[]"] = "expected a notebook, a JSON object with nbformat",
         ['{"nbformat": 3}'] = "expected nbformat 4, got 3",
         ['{"nbformat": 4}'] = "cells: expected a list",
         ['{"nbformat": 4, "cells": [3]}'] = "cell 1: source: expected a text or a list of lines",
         ['{"nbformat": 4, "cells": [{"source": [3], "cell_type": "code"}]}'] = "source: expected lines of text",
         ['{"nbformat": 4, "cells": [{"source": ""}]}'] = "cell 1: cell_type: expected a text",
      }
      for text, message in pairs(cases) do
         shell.with_folder(function(folder)
            shell.write(folder .. "/n.ipynb", text)
            local output, status = tlua("run " .. folder .. "/n.ipynb")
            assert.equal(1, status)
            assert.matches(message, output, 1, true)
            assert.equal(text, shell.read(folder .. "/n.ipynb"))
         end)
      end
      assert.matches("No such file", (tlua "run /nowhere/n.ipynb"), 1, true)
   end)
end)

describe("tlua notebook", function()
   it("installs the kernel below a prefix and for the user", function()
      shell.with_folder(function(folder)
         assert.matches("installed the kernel in " .. folder .. "/share/jupyter/kernels/tlua",
            (tlua("install --prefix " .. folder)), 1, true)
         local spec = json.decode(shell.read(folder .. "/share/jupyter/kernels/tlua/kernel.json"))
         assert.same({"notebook", "kernel", "{connection_file}"}, {table.unpack(spec.argv, 2)})
         assert.equal("lua", spec.language)
         if not os.getenv "SPEC_WRAP" then shell.ok("test -x " .. spec.argv[1]) end
         shell.ok(("JUPYTER_DATA_DIR=%s/data %s notebook install --user --name=my-lua --display-name Mine"):format(
            folder, shell.start()))
         assert.equal("Mine", json.decode(shell.read(folder .. "/data/kernels/my-lua/kernel.json")).display_name)
      end)
   end)

   it("explains its use", function()
      assert.matches("usage: tlua notebook install", (tlua "--help"), 1, true)
      for arguments, message in pairs {
         [""] = "expected install, run or kernel", rum = "unknown command 'rum'; did you mean run?",
         run = "expected a notebook", ["run --ouput x"] = "unknown option --ouput; did you mean",
         ["install x"] = "unexpected argument 'x'", ["install --name a/b"] = "name: expected letters",
         kernel = "expected a connection file", ["kernel /nowhere.json"] = "No such file",
         ["install --prefix"] = "--prefix: expected a value", ["run --output o a b"] = "expected a single notebook",
         ["install --user --prefix x"] = "expected only one of them",
      } do
         local output, status = tlua(arguments)
         assert.equal(1, status)
         assert.matches(message, output, 1, true)
      end
   end)
end)

describe("torch.notebook", function()
   it("prints outside of notebooks", function()
      local output = shell.ok(shell.start() .. [[ -e 'local n = torch.notebook
         n.display(torch.ones(2)):update "x"
         n.display_html "<b>" n.display_markdown "*m*" n.display_svg "<svg/>"']])
      assert.equal("tensor([1., 1.])\nx\n<b>\n*m*\n<an SVG drawing>\n", output)
      if not packages.has "tlua.plot" then return end
      assert.equal("██\n", shell.ok(shell.start() .. " -e 'torch.notebook.display_image(torch.ones(1, 1))'"))
   end)

   it("refuses wrong arguments", function()
      local display = torch.notebook
      assert.raises("notebook.display_html: text: expected a string, got 3", function() display.display_html(3) end)
      assert.raises("notebook.display_image: image: expected a tensor, got 3", function() display.display_image(3) end)
      assert.raises("unknown option quite; did you mean quiet?", function() torch.notebook.run("x", {quite = true}) end)
      assert.raises("/nowhere", function() torch.notebook.run "/nowhere/x.ipynb" end)
      assert.raises("notebook.display_image: image: expected (H, W), (C, H, W), (N, H, W) or (N, C, H, W), got",
         function() display.display_image(torch.ones(3)) end)
      assert.raises("display: __mime: expected a function, got a number",
         function() display.display(setmetatable({}, {__mime = 5})) end)
      assert.raises('notebook.install: prefix: expected a folder, got ""',
         function() display.install {prefix = ""} end)
      for _, name in ipairs {"..", ".", ""} do
         assert.raises("notebook.install: name: expected letters, digits, dots", function()
            display.install {name = name, prefix = "/nowhere"}
         end)
      end
   end)

   it("shows meta tensors and quantized tensors as text", function()
      local bundle = require "tlua.notebook.mime".bundle
      for _, x in ipairs {torch.ones(3, 3, {device = "meta"}), torch.ones(1, 9, 9, {device = "meta"}),
         torch.quantize_per_tensor(torch.ones(3), 0.1, 0, "quint8")} do
         local forms = bundle(x)
         assert.matches("^tensor%(", forms["text/plain"])
         assert.equal("text/plain", next(forms))
         assert.is_nil(next(forms, "text/plain"))
      end
   end)

   it("shows the corners of large tensors, and no table for tensors of other dimensions", function()
      local x = torch.arange(3000):view(100, 30)
      local text = html.tensor(x)
      assert.equal(21 * 13, select(2, text:gsub("<td", ""))) -- the table has 10 + 1 + 10 rows and 6 + 1 + 6 columns
      assert.matches(">2999</td>", text, 1, true)
      assert.is_nil(html.tensor(torch.ones(2, 2, 2)))
      assert.is_nil(html.tensor(torch.tensor(3)))
      assert.matches("nan", html.tensor(torch.tensor {0 / 0, 1 / 0}), 1, true)
      assert.matches("true", html.tensor(torch.tensor {true}), 1, true)
   end)
end)

describe("a cell", function()
   local function values(text)
      local fn, kind = chunk.compile_cell(text, "=cell")
      assert.is_truthy(kind, fn)
      return kind, select(2, fn())
   end

   it("returns the values of the expression at its end", function()
      assert.same({"expression", 3}, {values "local a = 1\na + 2"})
      assert.same({"expression", 3}, {values "local a = 1\na +\n2"})
      assert.same({"expression", 3, 4}, {values "3,\n4"})
      assert.same({"expression", 2}, {values "local t = {1, 2}\n#t -- a comment\n"})
      assert.same({"expression", 5}, {values "do local x = 2 end\n5"})
   end)

   it("is not split inside a statement, a string or a comment", function()
      for _, text in ipairs {
         "local f = print\n;(f)()", "x = 1\n-2", "x = [[\nx\n]]", "--[[\nx\n]]", "local s = 'a\\\nb'",
         "for i = 1, 2 do\nlocal x = i\nend", "x = function()\nreturn 1\nend", "x = 1 --[==[\nx\n]==]",
      } do
         assert.equal("chunk", (values(text)))
      end
   end)
end)

describe("messages", function()
   it("replace bytes that are not UTF-8", function()
      assert.equal("a\u{FFFD}b\u{FFFD}", messages.clean "a\xFFb\xC3")
      assert.equal("ä", messages.clean "ä")
   end)

   it("are signed as Python's hmac signs them", function()
      -- This signature is the result of Python's hmac.new(b"key", b"{}" * 4, "sha256").hexdigest().
      local signature = "ca767b02c5bc061ed184a9a029e7f93a7f2f7ed4e8fe74120fc1212f0b008fa3"
      assert.equal(signature, torch._kernel.hmac("key", ("{}"):rep(4)))
      local frames = {"id", "<IDS|MSG>", signature, "{}", "{}", "{}", "{}"}
      assert.same({nil, "its header has no msg_type"}, {messages.unpack("key", frames)})
      assert.same({nil, "its signature is wrong"}, {messages.unpack("other", frames)})
      assert.same({nil, "it has too few frames"}, {messages.unpack("key", {"<IDS|MSG>", "", "{}"})})
   end)
end)
