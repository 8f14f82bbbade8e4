-- checked.lua - wraps methods so that their arguments are checked before the method is called: a
-- caller passes arguments by position or by name, and an unknown name is an error. A class declares
-- the arguments of its methods beside them.

local args = require "tlua.args"

local M = {}

local origins = setmetatable({}, {__mode = "k"}) -- maps each checking function to its method

--- Returns the method that a checking function made by this module calls, so that the method's
--- source can be found. Any other function is returned unchanged.
---@param fn function
---@return function
function M.origin(fn) return origins[fn] or fn end

--- Records that a function only calls `inner`, so that the doc comment of `inner` describes the
--- function as well.
---@param fn function
---@param inner function
function M.wraps(fn, inner) origins[fn] = inner end

-- Returns given[keys[i]], given[keys[i + 1]] and so on as several values.
local function values(given, keys, i)
   if i > #keys then return end
   return given[keys[i]], values(given, keys, i + 1)
end

-- Returns a function that checks arguments and returns them by position. The default values, which
-- a call without arguments gets, are computed once and kept for later calls, unless one of them is
-- a table, which a function might change.
local function taker(declaration)
   local take, names = args.declare(declaration)
   local defaults, n
   return function(...)
      if select("#", ...) > 0 then return values(take(...), names(), 1) end
      if not n then
         local found = table.pack(values(take(), names(), 1))
         for i = 1, found.n do
            if type(found[i]) == "table" then return table.unpack(found, 1, found.n) end
         end
         defaults, n = found, found.n
      end
      return table.unpack(defaults, 1, n)
   end
end

local function check(fn, declaration)
   local take = taker(declaration)
   local function checked(self, ...) return fn(self, take(...)) end
   origins[checked] = fn
   return checked
end

--- Returns a function that calls fn without arguments, and raises an error if it gets an argument.
---@param title string  the function's name in messages
---@param fn function
---@return function
function M.query(title, fn)
   local take = args.signature(title .. "()")
   local function checked(...)
      if select("#", ...) > 0 then take(...) end
      return fn()
   end
   origins[checked] = fn
   return checked
end

--- Makes functions without parameters raise an error if they get an argument.
---@param module table  the module that has the functions
---@param prefix string  the beginning of their names in messages: "" or "cpu."
---@param names string  separated by spaces
function M.queries(module, prefix, names)
   for name in names:gmatch "[%w_]+" do module[name] = M.query(prefix .. name, module[name]) end
end

--- Makes functions check their arguments. The original functions get the arguments by position.
---@param module table  the module that has the functions
---@param prefix string  the beginning of their names in messages: "" or "amp."
---@param declarations string  "is_storage(value: any?)", each in the form of args.signature
function M.functions(module, prefix, declarations)
   for declaration in declarations:gmatch "[%w_]+%b()" do
      local name = declaration:match "^[%w_]+"
      local fn, take = module[name], taker(prefix .. declaration)
      local function checked(...) return fn(take(...)) end
      origins[checked] = fn
      module[name] = checked
   end
end

--- Makes methods of a class check their arguments; the methods then get their arguments by
--- position.
---@param class table
---@param declarations string  "zero_grad(set_to_none: boolean = true) eval()", each in the form of
--- args.signature
function M.methods(class, declarations)
   for declaration in declarations:gmatch "[%w_]+%b()" do
      local name = declaration:match "^[%w_]+"
      class[name] = check(class[name], class.__name .. "." .. declaration)
   end
end

return M
