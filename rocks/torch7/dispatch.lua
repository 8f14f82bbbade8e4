-- dispatch.lua - Torch7's calling convention. Tensors for results may precede the arguments, as in
-- torch.add(result, x, y). Methods of elementwise functions work in place, as x:add(y), unless
-- further tensors follow, as in x:add(y, z). An operator is declared with patterns of arguments.
-- Each letter of a pattern is an argument: T is a tensor, n a number, L sizes in a LongStorage or a
-- table, s a string, b a boolean, f a function.

local torch = require "tlua"
local types = require "tlua.torch7.types"

local M = {}

local field, is_tensor, tag = types.field, types.is_tensor, types.tag
local methods = types.methods
local set_metatable, get_metatable = debug.setmetatable, debug.getmetatable

local letters = {number = "n", string = "s", boolean = "b", table = "L"}
letters["function"] = "f"

local codes = {T = 1, n = 2, L = 3, s = 4, b = 5, f = 6, ["?"] = 7}

local function code_of(value)
   if is_tensor(value) then return 1 end
   return codes[letters[type(value)] or "?"]
end

local function letters_of(...)
   local list = {}
   for i = 1, select("#", ...) do
      local value = select(i, ...)
      list[i] = is_tensor(value) and "T" or letters[type(value)] or "?"
   end
   return table.concat(list)
end

-- Forms: which arguments are results ----------------------------------------------------------

-- A form describes one way to call an operator. It tells how many leading arguments are tensors for
-- results, whether the first argument is changed in place, and which function computes the result.

local function add_form(where, pattern, form)
   if where[pattern] == nil then where[pattern] = form end
end

local function add_pattern(op, pattern, fn, changing)
   add_form(op.functions, pattern, {results = 0, fn = fn})
   add_form(op.methods, pattern, {results = 0, in_place = op.in_place, fn = fn,
      changing = changing})
end

local function add_pattern_with_results(op, pattern, fn)
   local form = {results = op.results, fn = fn}
   pattern = ("T"):rep(op.results) .. pattern
   add_form(op.functions, pattern, form)
   add_form(op.methods, pattern, form)
end

local function describe(value)
   if is_tensor(value) then return types.kind_of(value).name .. "Tensor" end
   return type(value)
end

local function refuse(op, ...)
   local got, expected = {}, {}
   for i = 1, select("#", ...) do got[i] = describe((select(i, ...))) end
   for pattern in pairs(op.functions) do expected[#expected + 1] = pattern end
   table.sort(expected, function(a, b) return #a < #b or #a == #b and a < b end)
   for i, pattern in ipairs(expected) do
      expected[i] = "(" .. pattern:gsub(".", {T = "tensor, ", n = "number, ", L = "sizes, ",
         s = "string, ",
         b = "boolean, ", f = "function, "}):gsub(", $", "") .. ")"
   end
   torch.raise(("torch.%s: expected %s, got (%s)"):format(op.name, table.concat(expected, " or "),
      table.concat(got, ", ")))
end

-- Results -------------------------------------------------------------------------------------

local function same_shape(a, b)
   local x, y = field(a, "shape"), field(b, "shape")
   if #x ~= #y then return false end
   for i = 1, #x do
      if x[i] ~= y[i] then return false end
   end
   return true
end

--- Stores a result in a tensor: gives the tensor the result's size and copies the elements.
---@param target Tensor
---@param result Tensor
---@return Tensor target
function M.store(target, result)
   if not same_shape(target, result) then methods.resize_(target, field(result, "shape")) end
   methods.copy_(target, result)
   return target
end
local store = M.store

local function tag_all(first, ...)
   if is_tensor(first) then first = tag(first) end
   if select("#", ...) == 0 then return first end
   return first, tag_all(...)
end

-- Converts the results of an operator to Torch7's types, and returns them. `meta` is the metatable
-- of the first input, whose type the first result gets if the operator works in place. `first` is
-- the first result.
local function tagged(op, meta, first, ...)
   if not is_tensor(first) then return first, ... end
   local dtype = op.dtype_of[meta]
   if field(first, "dtype") == dtype then
      set_metatable(first, meta)
   elseif op.in_place and dtype then
      first = set_metatable(methods.to(first, dtype), meta)
   else
      first = tag(first)
   end
   if select("#", ...) == 0 then return first end
   return first, tag_all(...)
end

local function stored(target, result)
   if not is_tensor(result) then
      result = torch.tensor({result}, {dtype = field(target, "dtype")})
   end
   return store(target, result)
end

local dtype_of = {}
for _, kind in ipairs(types.list) do dtype_of[kind.tensor] = kind.dtype end

-- Truncates a number to an integer for tensors of integers, as C does.
local function whole(value)
   if math.type(value) == "float" then
      return value < 0 and math.ceil(value) or math.floor(value)
   end
   return value
end

local integers = {uint8 = true, int8 = true, int16 = true, int32 = true, int64 = true}

local function call(fn, a, ...)
   if is_tensor(a) and integers[field(a, "dtype")] then
      local list, n = {...}, select("#", ...)
      for i = 1, n do list[i] = whole(list[i]) end
      return fn(a, table.unpack(list, 1, n))
   end
   return fn(a, ...)
end

local function run_in_place(form, x, ...)
   if form.changing then
      call(form.changing, x, ...)
      return x
   end
   return stored(x, call(form.fn, x, ...))
end

local function run_into(form, ...)
   local targets = {...}
   local results = {call(form.fn, table.unpack(targets, form.results + 1, select("#", ...)))}
   for i = 1, form.results do stored(targets[i], results[i]) end
   return table.unpack(targets, 1, form.results)
end

local function run(op, form, first, ...)
   if form.in_place then return run_in_place(form, first, ...) end
   if form.results == 1 then return stored(first, call(form.fn, ...)) end
   if form.results > 1 then return run_into(form, first, ...) end
   return tagged(op, is_tensor(first) and get_metatable(first), call(form.fn, first, ...))
end

-- Returns a function that finds the form which fits the types of the arguments. Each form is cached
-- under a number that is computed from codes for these types.
local function finder(op, where)
   local known = {}
   return function(a, ...)
      local n, code = select("#", ...), code_of(a)
      for i = 1, n do code = code * 8 + code_of((select(i, ...))) end
      local form = known[code]
      if not form then
         form = where[letters_of(a, ...)]
         if not form then refuse(op, a, ...) end
         known[code] = form
      end
      return run(op, form, a, ...)
   end
end

--- The table to which operators are added as functions; it is Torch7's `torch`.
M.functions = {}

--- Declares an operator, as a function and as a method.
---@param name string  one name, or several names separated by spaces
---@param patterns table<string, function|function[]>  maps each pattern to a function that computes
---  the result from tlua's values, or to a pair: such a function, and a function that changes its
---  first argument instead
---@param options? {results: integer?, in_place: boolean?, method: boolean?}
function M.op(name, patterns, options)
   options = options or {}
   for one in name:gmatch "%S+" do
      local op = {name = one, functions = {}, methods = {}, dtype_of = dtype_of,
         results = options.results or 1, in_place = options.in_place}
      for _, add in ipairs {add_pattern, op.results > 0 and add_pattern_with_results or nil} do
         for list, fn in pairs(patterns) do
            local pair = type(fn) == "table" and fn or {fn}
            for pattern in list:gmatch "%S+" do add(op, pattern, pair[1], pair[2]) end
         end
      end
      M.functions[one] = finder(op, op.functions)
      if options.method ~= false then
         types.Tensor[one] = options.in_place and finder(op, op.methods)
            or M.functions[one]
      end
   end
end

return M
