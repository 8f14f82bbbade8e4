-- Timer.lua - times a statement:
--
--    local timer = torch.utils.benchmark.Timer {
--       stmt = "x:mm(y)", setup = "x, y = torch.randn(64, 64), torch.randn(64, 64)",
--    }
--    print(timer:blocked_autorange())
--
-- `stmt` and `setup` are Lua code or functions. Code can use the variables in `globals`, the
-- variables that `setup` has set, and the usual globals. The timer waits for devices, and uses one
-- thread unless num_threads is given.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Measurement = require "tlua.utils.benchmark.Measurement"

local signature = args.signature [[utils.benchmark.Timer(stmt: string|callable,
   setup: string|callable = '', globals: table?, num_threads: count = 1, label: string?,
   sub_label: string?, description: string?, env: string?)]]

---     local timer = torch.utils.benchmark.Timer {
---        stmt = "x + 1", setup = "x = torch.ones(2)",
---     }
---     print(timer:timeit(10).mean > 0)
---     --> true
---@class utils.benchmark.Timer
local Timer = class.class("utils.benchmark.Timer")

local function compile(name, code, environment)
   local chunk, message = load(code, "=" .. name, "t", environment)
   if not chunk then
      torch.raise(("utils.benchmark.Timer: %s: %s"):format(name, message))
   end
   return chunk
end

-- Returns code that runs a statement. A statement may also be an expression, as in Python's timeit;
-- the code then computes the expression and discards its value.
local function statement(stmt)
   return load("return " .. stmt) and "local _ = " .. stmt or stmt
end

-- Returns a function that runs the statement n times.
local function repeated(stmt, environment)
   if type(stmt) ~= "string" then
      return function(n)
         for _ = 1, n do stmt() end
      end
   end
   return compile("stmt", "local n = ... for _ = 1, n do " .. statement(stmt) .. "\nend",
      environment)
end

function Timer:__init(...)
   local a = signature(...)
   if a.num_threads < 1 then
      args.refuse("utils.benchmark.Timer", "num_threads", "an integer of at least 1", a.num_threads)
   end
   local environment = setmetatable({torch = torch, nn = torch.nn}, {__index = _G})
   for name, value in pairs(a.globals or {}) do environment[name] = value end
   self.task = {
      stmt = type(a.stmt) == "string" and a.stmt or nil, label = a.label, sub_label = a.sub_label,
      description = a.description, env = a.env, num_threads = a.num_threads,
      setup = type(a.setup) == "string" and a.setup or nil,
   }
   self.has_globals = next(a.globals or {}) ~= nil
   self.setup = type(a.setup) == "string" and compile("setup", a.setup, environment) or a.setup
   self.run = repeated(a.stmt, environment)
end

local function synchronize()
   for _, kind in ipairs {"cuda", "sim"} do
      if torch[kind].is_initialized() then torch[kind].synchronize() end
   end
end

-- Calls fn while the library uses the number of threads that the user gave.
local function with_threads(self, fn)
   local before = torch.get_num_threads()
   torch.set_num_threads(self.task.num_threads)
   local ok, result = pcall(fn)
   torch.set_num_threads(before)
   if not ok then error(result, 0) end
   return result
end

-- Runs the statement n times, and returns the duration in seconds.
local function time(self, n)
   synchronize()
   local begin = torch.io.clock()
   self.run(n)
   synchronize()
   return torch.io.clock() - begin
end

local function prepare(self)
   self.setup()
   self.run(1) -- one call that is not timed, because the first call does extra work
end

local function check_calls(who, number)
   if number < 1 then args.refuse(who, "number", "an integer of at least 1", number) end
   return number
end

-- Raises an error if any of the options a[name] is below 0 or NaN.
local function check_figures(who, a, ...)
   for _, name in ipairs {...} do
      local value = a[name]
      if value < 0 or value ~= value then
         args.refuse(who, name, "a number of at least 0", value)
      end
   end
   return a
end

local take_timeit = args.signature "timeit(number: integer = 1000000)"

--- Times one block of `number` calls.
---@param number? integer  1000000 by default
---@return utils.benchmark.Measurement
function Timer:timeit(...)
   local number = check_calls("timeit", take_timeit(...).number)
   return with_threads(self, function()
      prepare(self)
      self.run(math.max(number // 100, 1))
      return Measurement(self.task, number, {time(self, number)})
   end)
end

-- Returns the number of calls in a block. The number is such that the block takes at least `least`
-- seconds, and so long that reading the clock takes at most a thousandth of its time.
local function block_size(self, least)
   local overhead = math.huge
   for _ = 1, 5 do
      local begin = torch.io.clock()
      synchronize()
      overhead = math.min(overhead, torch.io.clock() - begin)
   end
   local number = 1
   while true do
      local seconds = time(self, number)
      local exact = seconds >= least and overhead / seconds <= 1e-3
      if exact or number >= 1 << 30 then return number end
      number = number * 10
   end
end

local take_blocked = args.signature [[blocked_autorange(min_run_time: number = 0.2,
   callback: callable?)]]

--- Times blocks of calls for at least min_run_time seconds. Each block takes long enough that the
--- time for reading the clock is negligible.
---@param options? {min_run_time: number, callback: fun(number: integer, seconds: number)}
--- min_run_time: 0.2 by default; callback: is called after each block
---@return utils.benchmark.Measurement
function Timer:blocked_autorange(...)
   local a = check_figures("blocked_autorange", take_blocked(...), "min_run_time")
   return with_threads(self, function()
      prepare(self)
      local number, raw, sum = block_size(self, a.min_run_time / 1000), {}, 0
      while sum < a.min_run_time or #raw < 2 do
         raw[#raw + 1] = time(self, number)
         sum = sum + raw[#raw]
         if a.callback then a.callback(number, raw[#raw]) end
      end
      return Measurement(self.task, number, raw)
   end)
end

local take_adaptive = args.signature [[adaptive_autorange(threshold: number = 0.1,
   min_run_time: number = 0.01, max_run_time: number = 10)]]

--- Times at least 4 blocks of calls for at least min_run_time seconds, until the spread (IQR /
--- median) is below the threshold, or max_run_time is over.
---@param options? {threshold: number, min_run_time: number, max_run_time: number}  threshold: 0.1
--- by default; min_run_time: 0.01 by default; max_run_time: 10 by default
---@return utils.benchmark.Measurement
function Timer:adaptive_autorange(...)
   local a = check_figures("adaptive_autorange", take_adaptive(...), "threshold", "min_run_time",
      "max_run_time")
   return with_threads(self, function()
      prepare(self)
      local number, raw, sum = block_size(self, a.min_run_time / 1000), {}, 0
      while true do
         raw[#raw + 1] = time(self, number)
         sum = sum + raw[#raw]
         if #raw >= 4 and sum >= a.min_run_time then
            local m = Measurement(self.task, number, raw)
            if sum >= a.max_run_time or m.iqr / m.median < a.threshold then return m end
         end
      end
   end)
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- Returns the number of instructions that callgrind counts for a run of `program` with the Lua code
-- `code`.
local function instructions(program, code)
   local command = "valgrind --tool=callgrind --callgrind-out-file=/dev/null %s -e %s 2>&1"
   local pipe = assert(io.popen(command:format(quote(program), quote(code))))
   local output = pipe:read "a"
   pipe:close()
   local count = output:match "Collected : (%d+)"
   if count and not output:find "\nstack traceback:" then return math.tointeger(tonumber(count)) end
   -- finds the error message of the code among valgrind's own lines
   for line in output:gmatch "[^\n]+" do
      if not line:find "^==" then return nil, line end
   end
   return nil, "there is no valgrind"
end

local take_callgrind = args.signature "collect_callgrind(number: integer = 100)"

--- Counts the instructions of one call with valgrind, in a separate process: the result has no
--- noise. `stmt` and `setup` must be code, and cannot use the globals of this process. Returns nil
--- and a message if valgrind is missing or the code fails.
---@param number? integer  calls, 100 by default
---@return number? instructions
---@return string? message
function Timer:collect_callgrind(...)
   local number = check_calls("collect_callgrind", take_callgrind(...).number)
   if self.has_globals then
      torch.raise("collect_callgrind: globals: another process, which counts, does not have them; "
         .. "make them in setup")
   end
   if not self.task.stmt or not self.task.setup then
      torch.raise "collect_callgrind: stmt and setup must be strings of Lua code"
   end
   local words, lowest = _G.arg or {}, 0
   while words[lowest - 1] do lowest = lowest - 1 end
   local name = words[lowest] or "tlua"
   local function code(n)
      return ("torch.set_num_threads(%d) %s\nfor _ = 1, %d do %s\nend"):format(
         self.task.num_threads, self.task.setup, n, statement(self.task.stmt))
   end
   local few, message = instructions(name, code(number))
   if not few then return nil, "collect_callgrind: " .. message end
   local many, later = instructions(name, code(2 * number))
   if not many then return nil, "collect_callgrind: " .. later end
   return (many - few) / number
end

return Timer
