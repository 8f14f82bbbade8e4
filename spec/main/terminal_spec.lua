-- Tests the interactive mode at a terminal: editing, history, completion and Ctrl-C. In a session, a line with ? is a
-- text to wait for, and a line with ! is a text to type; pty.c describes the syntax. The terminal also shows the typed
-- text, so sessions wait for results that differ from it.

local session = require "spec.main.session"
local shell = require "spec.support.shell"

-- Returns the path at which the dynamic linker finds a library, or nil if there is no such library.
local function find_library(name)
   local program = ("package.loadlib(%q, '*') for line in io.lines('/proc/self/maps') do " ..
      "local path = line:match('(/%%S*%s%%S*)') if path then print(path) break end end"):
      format(name, name:match("^lib%a+"))
   return shell.ok("lua5.4 -e " .. shell.quote(program)):match("[^\n]+")
end

local editors <const> = {"libedit.so.2", "libreadline.so.8"}
local names <const> = {
   "libedit.so.2", "libedit.so.0", "libedit.so", "libreadline.so.8", "libreadline.so.7", "libreadline.so.6",
}

local function plays(lines, options)
   local shown, status = session.terminal(lines, options)
   assert.equal(0, status, shown)
   return shown
end

-- Appends lines that end a session. ~ waits until the editor reads keys, because before that, Ctrl-D is not treated as
-- a key.
local function closing(lines)
   table.insert(lines, "? > ")
   table.insert(lines, "~")
   table.insert(lines, "! \\004")
   return lines
end

local function common(options_for)
   it("prints a greeting and leaves on Ctrl-D", function()
      local shown = plays(closing {"? PUC-Rio", "? help() tells"}, options_for())
      assert.not_matches("traceback", shown)
   end)

   it("shows values and takes several lines", function()
      plays(closing {"? > ", "! 6*7\\n", "? 42", "? > ", "! x = {\\n", "? >> ", "! 1+1,3}\\n",
         "? > ", "! x\\n", "? {2, 3}"}, options_for())
   end)

   it("interrupts the running line, and continues", function()
      plays(closing {"? > ", '! print("o".."n") while true do end\\n', "? on\r", "! \\003",
         "? interrupted!", "? > ", "! 6*7\\n", "? 42"}, options_for())
   end)

   it("clears the line on Ctrl-C", function()
      plays(closing {"? > ", "~", "! error(", "~", "! \\003", "? ^C", "? > ", "! 6*7\\n", "? 42"}, options_for())
   end)

   it("clears the line on Ctrl-C while other threads run", function()
      plays(closing {"? > ", "! torch.set_num_threads(2)\\n",
         "? > ", "! x = torch.ones(2000, 2000) + 1\\n", "? > ", "! 6*7\\n", "? 42",
         "? > ", "~", "! error(", "~", "! \\003", "? ^C", "? > ", "! 6*7\\n",
         "? 42"}, options_for())
   end)

   it("leaves a chunk of several lines on Ctrl-C", function()
      plays(closing {"? > ", "! for i = 1, 2 do\\n", "? >> ", "~", "! \\003", "? ^C", "? > ",
         "! 6*7\\n", "? 42"}, options_for())
   end)
end

for _, name in ipairs(editors) do
   describe("a terminal with " .. name, function()
      local library = find_library(name)
      if not library then
         pending("the library is not on this machine")
         return
      end

      local options
      setup(function() options = {libraries = shell.ok("mktemp -d"):match("[^\n]+")} end)
      teardown(function() os.execute("rm -rf " .. shell.quote(options.libraries)) end)
      before_each(function()
         for _, alias in ipairs(names) do shell.ok(("ln -sf %s %s/%s"):format(library, options.libraries, alias)) end
      end)
      local function options_for() return options end

      common(options_for)

      it("moves the cursor and edits the line", function()
         local left, delete, rest = "\\002\\002", "\\004", "\\005"
         plays(closing {"? > ", "~", "! 6*8" .. left .. delete .. "/" .. rest .. "00\\n", "? 0.0075"}, options)
      end)

      it("takes text in any writing system", function()
         plays(closing {"? > ", "~", '! ("ü" .. "ß"):rep(2)\\n', "? üßüß"}, options)
      end)

      it("completes names", function()
         plays(closing {"? > ", "~", '! string.rever\\t("abc")\\n', "? cba",
            "? > ", "~", "! string.re\\t\\t\\t", "? string.rep", "? string.reverse",
            "! \\003",
            "? ^C"}, options)
      end)

      it("completes methods of tensors", function()
         plays(closing {"? > ", "! x = torch.ones(4)\\n", "? > ", "~", "! x:nume\\t() * 10\\n", "? 40"}, options)
      end)

      it("keeps a history that only its owner may read", shell.in_folder(function(state)
         local here = {libraries = options.libraries, state = state}
         plays(closing {"? > ", "! 6*\\n", "? >> ", "! 7\\n", "? 42", "? > ", "! 6*7 + 1\\n",
            "? 43", "? > ", "! 6*7 + 1\\n", "? 43"}, here)
         local path = state .. "/tlua/history"
         assert.equal("6* 7\n6*7 + 1\n", shell.read(path))
         assert.matches("^%-rw%-%-%-%-%-%-%-", shell.ok("ls -l " .. shell.quote(path)))
         plays(closing {"? > ", "~", "! \\020\\020 + 2\\n", "? 44"}, here)
      end))

      it("works without a history if the file cannot be written", function()
         local nowhere = {libraries = options.libraries, state = "/dev/null"}
         plays(closing {"? > ", "! 6*7\\n", "? 42"}, nowhere)
      end)
   end)
end

describe("a terminal without a library for editing", function()
   local folder
   setup(function()
      folder = shell.ok("mktemp -d"):match("[^\n]+")
      for _, name in ipairs(names) do shell.write(folder .. "/" .. name, "no library") end
   end)
   teardown(function() os.execute("rm -rf " .. shell.quote(folder)) end)

   common(function() return {libraries = folder, plain = true} end)
end)
