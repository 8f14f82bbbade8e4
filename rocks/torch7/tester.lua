-- tester.lua - torch.Tester and torch.TestSuite: named tests, whose assertions are counted.

local torch = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"

local methods = types.methods

local M = {}

-- Comparisons -------------------------------------------------------------------------------------

local compare -- compare(a, b, tolerance) returns whether a equals b, and otherwise also the reason

local function compare_tensors(a, b, tolerance)
   if not a:isSameSizeAs(b) then return false, "the sizes differ" end
   if classes.typename(a) ~= classes.typename(b) then return false, "the types differ" end
   if methods.numel(a) == 0 then return true end
   local x, y = methods.to(torch.detach(a), "float64"), methods.to(torch.detach(b), "float64")
   if torch.equal(x, y) then return true end
   local difference = methods.item(torch.max(torch.abs(torch.sub(x, y))))
   return difference <= tolerance, ("the largest difference is %g, the tolerance %g"):format(
      difference, tolerance)
end

local function compare_tables(a, b, tolerance)
   if classes.typename(a) ~= classes.typename(b) then return false, "the classes differ" end
   for key, value in next, a do
      local same, reason = compare(value, b[key], tolerance)
      if not same then return false, ("at %s: %s"):format(tostring(key), reason) end
   end
   for key in next, b do
      if a[key] == nil then return false, ("%s is missing"):format(tostring(key)) end
   end
   return true
end

local function show(value)
   return type(value) == "string" and ("'%s'"):format(value) or tostring(value)
end

function compare(a, b, tolerance)
   tolerance = tolerance or 0
   if types.is_tensor(a) and types.is_tensor(b) then return compare_tensors(a, b, tolerance) end
   if types.is_storage(a) and types.is_storage(b) then
      return compare(a:totable(), b:totable(), tolerance)
   elseif type(a) == "number" and type(b) == "number" then
      return a == b or math.abs(a - b) <= tolerance, ("%s and %s differ"):format(a, b)
   elseif type(a) == "table" and type(b) == "table" then
      return compare_tables(a, b, tolerance)
   end
   return a == b, ("%s and %s differ"):format(show(a), show(b))
end

-- Suites ------------------------------------------------------------------------------------------

--- Creates a suite, which is a table of tests. Assigning to an existing name is an error.
function M.TestSuite()
   return setmetatable({__tests = {}, __isTorchTestSuite = true}, {
      __index = function(self, key) return rawget(self, "__tests")[key] end,
      __newindex = function(self, key, value)
         if rawget(self, "__tests")[key] ~= nil then
            torch.raise(("TestSuite: Test %s is already defined."):format(tostring(key)))
         end
         if type(value) ~= "function" then
            torch.raise("TestSuite: expected a function, got " .. type(value))
         end
         rawget(self, "__tests")[key] = value
      end,
      __pairs = function(self) return next, rawget(self, "__tests") end,
   })
end

classes.newmetatable "torch.Tester"
local Tester = classes.getconstructortable "torch.Tester"
M.Tester = Tester

function Tester:__init()
   self.tests, self.names, self.disabled = {}, {}, {}
   self.failures, self.errors, self.asserts = {}, {}, 0
   self.countasserts = 0
end

local function add_one(self, fn, name)
   if type(name) ~= "string" then torch.raise("Tester:add: expected a name for the test") end
   if name == "_setUp" or name == "_tearDown" then
      self[name == "_setUp" and "set_up" or "tear_down"] = fn
      return
   end
   if self.tests[name] then torch.raise(("Tester:add: the test %s exists"):format(name)) end
   self.tests[name] = fn
   self.names[#self.names + 1] = name
end

--- Adds a test, given as (function, name), or all tests of a table or a suite. The function
--- `_setUp` runs before each test. `_tearDown` runs after each test that has raised no error.
function Tester:add(test, name)
   if type(test) == "function" then
      add_one(self, test, name)
      return self
   elseif type(test) ~= "table" then
      torch.raise("Tester:add: expected a function or a table, got " .. type(test))
   end
   local names = {}
   for key, value in pairs(test) do
      if type(value) == "function" then
         names[#names + 1] = key
      elseif type(value) == "table" and key ~= "__tests" then
         self:add(value)
      end
   end
   table.sort(names)
   for _, key in ipairs(names) do add_one(self, test[key], key) end
   return self
end

local function name_set(names)
   local set = {}
   for _, name in ipairs(type(names) == "table" and names or {names}) do set[name] = true end
   return set
end

function Tester:disable(names)
   for name in pairs(name_set(names)) do self.disabled[name] = true end
   return self
end

function Tester:setEarlyAbort(value) self.early_abort = value == nil or value end
function Tester:setRethrowErrors(value) self.rethrow = value == nil or value end
function Tester:setSummaryOnly(value) self.summary_only = value == nil or value end

-- Assertions --------------------------------------------------------------------------------------

-- Counts an assertion. If the assertion failed, also records a message with the test's line.
local function note(self, good, message, reason)
   self.asserts = self.asserts + 1
   self.countasserts = self.asserts
   if good then return true end
   local at = ""
   for level = 3, 8 do
      local info = debug.getinfo(level, "Sl")
      if info and not info.source:find "^=tlua:" and info.currentline > 0 then
         at = ("%s:%d: "):format(info.short_src, info.currentline)
         break
      end
   end
   table.insert(self.failures, {test = self.running or "?", message = ("%s%s%s"):format(at,
      message and tostring(message) .. "\n" or "", reason or "the condition is false")})
   if self.early_abort then error({early_abort = true}, 0) end
   return false
end

function Tester:assert(condition, message) return note(self, condition, message) end

local orders = {lt = {"<", function(a, b) return a < b end},
   gt = {">", function(a, b) return a > b end},
   le = {"<=", function(a, b) return a <= b end}, ge = {">=", function(a, b) return a >= b end}}
for name, order in pairs(orders) do
   Tester["assert" .. name] = function(self, a, b, message)
      return note(self, order[2](a, b), message,
         ("expected %s %s %s"):format(show(a), order[1], show(b)))
   end
end

-- Parses the arguments ([tolerance,] [message]) as Torch7 does.
local function options(tolerance, message)
   if type(tolerance) == "string" then return 0, tolerance end
   return tolerance or 0, message
end

local function equality(wanted, kind)
   return function(self, a, b, tolerance, message)
      tolerance, message = options(tolerance, message)
      if kind and not kind(a, b) then
         return note(self, false, message, "the arguments' types are wrong")
      end
      local same, reason = compare(a, b, tolerance)
      return note(self, same == wanted, message, wanted and reason or "the values are equal")
   end
end

local function tensors(a, b) return types.is_tensor(a) and types.is_tensor(b) end
local function tables(a, b) return type(a) == "table" and type(b) == "table" end

for _, name in ipairs {"eq", "assertGeneralEq"} do Tester[name] = equality(true) end
for _, name in ipairs {"ne", "assertGeneralNe"} do Tester[name] = equality(false) end
-- asserteq and assertne compare as Lua's == does, so a tensor equals only itself.
function Tester:asserteq(a, b, message)
   return note(self, a == b, message, ("%s and %s differ"):format(show(a), show(b)))
end
function Tester:assertne(a, b, message)
   return note(self, a ~= b, message, ("both are %s"):format(show(a)))
end
Tester.assertTensorEq, Tester.assertTensorNe = equality(true, tensors), equality(false, tensors)
Tester.assertTableEq, Tester.assertTableNe = equality(true, tables), equality(false, tables)
function Tester:assertalmosteq(a, b, tolerance, message)
   tolerance, message = options(tolerance, message)
   return self:eq(a, b, tolerance == 0 and 1e-16 or tolerance, message)
end
Tester.assertAlmostEq = Tester.assertalmosteq
function Tester:assertTensorSizesEq(a, b, message)
   return note(self, a:isSameSizeAs(b), message, "the sizes differ")
end

local function text_of(problem)
   return type(problem) == "string" and problem or tostring(problem)
end

function Tester:assertError(fn, message)
   return note(self, not pcall(fn), message, "expected an error")
end
function Tester:assertNoError(fn, message)
   local good, problem = pcall(fn)
   return note(self, good, message, "got an error: " .. text_of(problem))
end
function Tester:assertErrorMsg(fn, wanted, message)
   local good, problem = pcall(fn)
   local text = not good and text_of(problem):gsub("^[^\n]-:%d+: ", "")
   return note(self, not good and (text == wanted or problem == wanted), message,
      ("expected the error '%s', got %s"):format(wanted, good and "none" or text_of(problem)))
end
function Tester:assertErrorPattern(fn, pattern, message)
   local good, problem = pcall(fn)
   return note(self, not good and text_of(problem):find(pattern) ~= nil, message,
      ("expected an error like '%s', got %s"):format(pattern, good and "none" or text_of(problem)))
end
function Tester:assertErrorObj(fn, check, message)
   local good, problem = pcall(fn)
   return note(self, not good and check(problem), message, "expected another error")
end

-- Runs --------------------------------------------------------------------------------------------

local function run_one(self, name)
   self.running = name
   local failed = #self.failures
   local good, problem = xpcall(function()
      if self.set_up then self.set_up(name) end
      self.tests[name]()
      if self.tear_down then self.tear_down(name) end
   end, function(problem)
      return type(problem) == "table" and problem or debug.traceback(text_of(problem), 2)
   end)
   if not good and not (type(problem) == "table" and problem.early_abort) then
      table.insert(self.errors, {test = name, message = text_of(problem)})
      if self.rethrow then error(problem, 0) end
      return "ERROR"
   end
   return #self.failures > failed and "FAIL" or "PASS"
end

local line <const> = ("-"):rep(80) .. "\n"

local function report(self, count, skipped)
   io.write(("Completed %d asserts in %d test%s with %d failure%s and %d error%s%s\n"):format(
      self.asserts, count, count == 1 and "" or "s", #self.failures,
      #self.failures == 1 and "" or "s", #self.errors, #self.errors == 1 and "" or "s",
      skipped > 0 and (" and %d disabled"):format(skipped) or ""))
   if self.summary_only then return end
   io.write(line)
   for _, list in ipairs {self.failures, self.errors} do
      for _, one in ipairs(list) do io.write(one.test, "\n", one.message, "\n", line) end
   end
end

-- Returns the names of the tests to run. A wanted name is a pattern, as in string.match.
local function names_to_run(self, wanted)
   if not wanted then return self.names end
   local list = {}
   for _, name in ipairs(self.names) do
      for _, pattern in ipairs(type(wanted) == "table" and wanted or {wanted}) do
         if name == pattern or name:match(pattern) then
            list[#list + 1] = name
            break
         end
      end
   end
   return list
end

--- Runs all tests, or those whose names match, and prints a report. Raises an error if any test
--- failed.
---@param wanted? string|string[]
function Tester:run(wanted)
   self.failures, self.errors, self.asserts = {}, {}, 0
   local names, skipped = names_to_run(self, wanted), 0
   io.write(("Running %d test%s\n"):format(#names, #names == 1 and "" or "s"))
   for i, name in ipairs(names) do
      local result = "SKIP"
      if self.disabled[name] then skipped = skipped + 1 else result = run_one(self, name) end
      local title = ("%d/%d %s "):format(i, #names, name)
      io.write(title, ("."):rep(73 - #title), (" [%s]\n"):format(result))
      if self.early_abort and (result == "FAIL" or result == "ERROR") then break end
   end
   report(self, #names, skipped)
   if #self.failures + #self.errors > 0 then
      torch.raise "An error was found while running tests!"
   end
end

return M
