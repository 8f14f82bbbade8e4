-- Tests the spec runner and the assertions that all other specs use. If the runner passed failing tests, no other spec
-- would be worth anything.

local shell = require "spec.support.shell"

local header = 'describe("x", function() it("y", function() %s end) end)\n'

describe("spec/support/run.lua", function()
   -- Writes a spec file for each of these bodies and runs the files. Returns the runner's output and status.
   local function run(bodies, options)
      return shell.with_folder(function(folder)
         for name, body in pairs(bodies) do
            shell.write(("%s/%s_spec.lua"):format(folder, name), header:format(body))
         end
         return shell.run(("lua5.4 spec/support/run.lua %s %s"):format(options or "", folder))
      end)
   end

   local function last_line(output) return output:match("([^\n]*)\n$") end

   it("adds up the counts of all files", function()
      local output, status = run {a = "", b = "pending('no such hardware')", c = ""}
      assert.equal("2 passed, 0 failed, 1 skipped", last_line(output))
      assert.equal(0, status)
      assert.truthy(output:find("skipped: x y", 1, true))
   end)

   it("fails files that have not ended within the common time limit", function()
      local output, status = run({a = "while true do end", b = ""}, "--within 1")
      assert.not_equal(0, status)
      assert.matches("FAIL    0          [^\n]*a_spec.lua: no time was left", output)
      output, status = run({a = ""}, "--within 0")
      assert.equal("0 passed, 1 failed", last_line(output))
      assert.not_equal(0, status)
   end)

   for _, row in ipairs {
      {"shows the output of a failing file", {good = "", bad = "assert.equal(1, 2, 'see here')"},
         total = "1 passed, 1 failed", shows = "see here"},
      {"counts an error as a failure", {bad = "error('see here')"}, total = "0 passed, 1 failed", shows = "see here"},
      {"counts a crash as a failure and runs the other files", {bad = "os.execute('kill -SEGV $PPID')", good = ""},
         total = "1 passed, 1 failed", shows = "signal 11"},
   } do
      it(row[1], function()
         local output, status = run(row[2])
         assert.equal(row.total, last_line(output))
         assert.equal(1, status)
         assert.truthy(output:find(row.shows, 1, true))
      end)
   end

   it("counts a bad end after the tests as a failure", function()
      local output = run {bad = "package.loaded.bad = setmetatable({}, {__gc = function() os.exit(3) end})"}
      assert.equal("1 passed, 1 failed", last_line(output))
   end)

   it("stops a file that does not end", function()
      local output, status = shell.with_folder(function(folder)
         shell.write(folder .. "/a_spec.lua", header:format("while true do end"))
         return shell.run("SPEC_TIMEOUT=1 lua5.4 spec/support/run.lua " .. folder)
      end)
      assert.equal("0 passed, 1 failed", last_line(output))
      assert.equal(1, status)
   end)

   it("fails for a file without tests, and without files", shell.in_folder(function(folder)
      shell.write(folder .. "/a_spec.lua", "")
      local output, status = shell.run("lua5.4 spec/support/run.lua " .. folder)
      assert.equal("0 passed, 1 failed", last_line(output))
      assert.equal(1, status)
      output, status = shell.run("lua5.4 spec/support/run.lua " .. folder .. "/none")
      assert.truthy(output:find("0 passed, 0 failed", 1, true))
      assert.equal(1, status)
   end))

   it("runs only tests whose names match", function()
      local output = run({a = "", b = "error('x')"}, "--filter z")
      assert.equal("0 passed, 0 failed", last_line(output))
   end)
end)

describe("assert.close", function()
   local function message(...)
      local ok, e = pcall(assert.close, ...)
      assert.falsy(ok)
      return tostring(type(e) == "table" and e.message or e)
   end

   it("compares numbers and lists of any depth", function()
      assert.close(1, 1 + 1e-8)
      assert.close({{1, 2}, {3, 4}}, {{1, 2}, {3, 4.0001}}, 1e-3)
      assert.close({}, {})
      assert.close({a = {1, 2}, b = "x"}, {a = {1, 2}, b = "x"})
   end)

   it("takes the tolerance relative to numbers past 1", function()
      assert.close(1e6, 1e6 + 1, 1e-5)
      assert.not_close(1e-6, 2e-6, 1e-7)
   end)

   it("compares NaN and infinity", function()
      assert.close({0 / 0, math.huge}, {0 / 0, math.huge})
      assert.not_close(1, 0 / 0, 1)
      assert.not_close(0 / 0, 1, 1)
      assert.not_close(math.huge, 1e308, 1)
      assert.not_close(math.huge, -math.huge, 1)
      assert.not_close(1, math.huge, 1)
   end)

   it("names the worst element and both values", function()
      local text = message({{1, 2}, {3, 4}}, {{1.5, 2}, {3, 9}}, 0.1)
      assert.truthy(text:find("value[2][2]: expected 4, got 9", 1, true), text)
      assert.truthy(text:find("2 of 4 elements", 1, true), text)
   end)

   it("distinguishes shapes", function()
      assert.truthy(message({1, 2}, {1, 2, 3}):find("expected (2), got (3)", 1, true))
      assert.not_close({1}, 1)
      assert.not_close({{1, 2}}, {1, 2})
      assert.not_close({}, {1})
   end)

   it("compares tables that are not lists by key", function()
      assert.truthy(message({a = 1}, {b = 1}):find("value[a] is missing", 1, true))
      assert.truthy(message({}, {b = 1}):find("value[b] is not expected", 1, true))
   end)
end)

describe("assert.raises", function()
   local function fails(...) assert.falsy((pcall(assert.raises, ...))) end

   it("requires each text, and a line of the function", function()
      local message = assert.raises("one", "two", function() error("one and two") end)
      assert.truthy(message:find("one and two", 1, true))
      fails("three", function() error("one and two") end)
      fails("one", function() error("one", 0) end)
      fails("one", function() error("somewhere.lua:1: one", 0) end)
      fails("one", function() end)
   end)
end)
