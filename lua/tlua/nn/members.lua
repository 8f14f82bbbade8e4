-- members.lua - iterates over the parameters, buffers and submodules of a module and of its
-- descendants. A module lists the names of its fields in `_fields` (Module.lua).

local torch = require "tlua"
local class = require "tlua.class"
local Buffer = require "tlua.nn.Buffer"
local item_names = require "tlua.nn.item_names"

local M = {}

-- M.Module is the class nn.Module. Module.lua sets this field, because Module.lua requires this
-- file and so cannot be required here.

---@param value any
---@return boolean
function M.is_module(value)
   return type(value) == "table" and class.isinstance(value, M.Module)
end

---@param value any
---@return boolean
function M.is_parameter(value)
   return type(value) == "userdata" and torch.is_tensor(value) and value.is_parameter
end

local is_module <const>, is_parameter <const> = M.is_module, M.is_parameter

--- Appends the name of a field to the path of the module that has it, with a dot unless the path is
--- empty.
---@param path string
---@param name string|integer
---@return string
function M.join(path, name)
   return path == "" and tostring(name) or path .. "." .. tostring(name)
end

-- Iterates over the fields for which keep(value, name, module) is true, or over all fields if keep
-- is nil.
local function filtered(module, keep)
   local list, named = rawget(module, "_fields"), item_names.of(module)
   local names, i = list and list.order or {}, 0
   return function()
      while true do
         i = i + 1
         local name = names[i]
         if name == nil then return nil end
         local value = rawget(module, name)
         if value ~= nil and (not keep or keep(value, name, module)) then
            return named and named[name] or name, value
         end
      end
   end
end

--- Iterates over the fields in the order of their first assignment. A named item is listed under
--- its name instead of its position.
---@param module nn.Module
---@return fun(): any, any
function M.fields(module)
   return filtered(module)
end

local fields <const>, join <const> = M.fields, M.join

--- Visits a module and its descendants, in the order of fields. Each function in `calls` is
--- optional: enter(module, path) is called before a module's fields, value(path, value, module,
--- name) for each field that is not a module, and leave(module, path) after the fields. A shared
--- module is visited once for each of its paths or, with `once`, a single time.
---@param module nn.Module
---@param path string
---@param calls {enter: function?, value: function?, leave: function?, once: boolean?}
---@param shift? integer  subtracted from positions in paths
---@param above? table<nn.Module, true>  modules that are not visited
function M.visit(module, path, calls, shift, above)
   above = above or {}
   if above[module] then return end
   above[module] = true
   local visit = calls.value
   if calls.enter then calls.enter(module, path) end
   for name, value in fields(module) do
      local inner = is_module(value)
      if inner or visit then
         local at = join(path, shift and math.type(name) == "integer" and name - shift or name)
         if inner then
            M.visit(value, at, calls, shift, above)
         else
            visit(at, value, module, name)
         end
      end
   end
   if not calls.once then above[module] = nil end
   if calls.leave then calls.leave(module, path) end
end

-- Maps modules to the fields in which functional_call has put other tensors.
local lent = setmetatable({}, {__mode = "k"})

--- Sets whether the tensor in a field takes the place of a parameter for a while. Returns whether
--- it did before.
---@param module nn.Module
---@param name any
---@param on boolean
---@return boolean
function M.lend(module, name, on)
   local names = lent[module] or {}
   local before = names[name] or false
   names[name] = on or nil
   lent[module] = next(names) ~= nil and names or nil
   return before
end

--- Returns whether the tensor in a field is a parameter or takes the place of one.
---@param module nn.Module
---@param name any
---@param value any
---@return boolean
function M.counts_as_parameter(module, name, value)
   if is_parameter(value) then return true end
   local names = lent[module]
   return names ~= nil and names[name] or false
end

-- Returns whether a field's value is computed from other parameters at each call.
local function is_computed(module, name)
   local recomputed, prunings = rawget(module, "_recomputed"), rawget(module, "_prunings")
   return recomputed and recomputed[name] or prunings and prunings[name]
end

--- Raises an error if the program has replaced a parameter by a plain tensor, which no optimizer
--- would train and no state would contain. Accepts buffers, since the program has declared them.
---@param module nn.Module
---@param name any
---@param value any  the field's value, which is no parameter
function M.check_replaced(module, name, value)
   if rawget(module, "_fields").known[name] == "parameter" and torch.is_tensor(value)
         and not is_computed(module, name) and not M.buffer_kind(module, name, value) then
      torch.raise(("%s: %s: expected a parameter, as before, got a plain tensor: assign "
         .. "nn.Parameter(tensor)"):format(torch.type(module), tostring(name)))
   end
end

-- Returns whether a field's value counts as a parameter of the module. Raises an error for a plain
-- tensor that has replaced a parameter.
local function is_own_parameter(value, name, module)
   if is_parameter(value) then return true end
   local names = lent[module]
   if names and names[name] then return true end
   if type(value) == "userdata" then M.check_replaced(module, name, value) end
   return false
end

--- Iterates over a module's own parameters.
---@param module nn.Module
---@return fun(): any, Tensor
function M.own_parameters(module)
   return filtered(module, is_own_parameter)
end

--- Iterates over a module's own buffers.
---@param module nn.Module
---@return fun(): any, Tensor
function M.own_buffers(module)
   return filtered(module, function(value, name)
      return torch.is_tensor(value) and M.buffer_kind(module, name, value)
   end)
end

--- Returns "persistent" or "transient" for a tensor in a field of a module that is a buffer,
--- because of register_buffer or nn.Buffer. Returns nil for any other tensor.
---@param module nn.Module
---@param name any  the field
---@param value Tensor
---@return string? kind
function M.buffer_kind(module, name, value)
   local marked = rawget(module, "_buffers")
   return marked and marked[name] or Buffer.kind(value)
end

--- Iterates over a module's children; a child with several names comes once.
---@param module nn.Module
---@return fun(): any, nn.Module
function M.own_modules(module)
   local seen = {}
   return filtered(module, function(value)
      if not is_module(value) or seen[value] then return false end
      seen[value] = true
      return true
   end)
end

--- Returns the list {{path, value}, ...} of all values that `pick` finds in a module and its
--- descendants. pick(module) iterates over the names and values of one module. A shared value is
--- listed once, unless remove_duplicate is false.
---@param module nn.Module
---@param pick fun(module: nn.Module): fun(): any, any
---@param options {prefix: string?, recurse: boolean?, remove_duplicate: boolean?}
---@return any[][]
function M.collect(module, pick, options)
   local every = options.remove_duplicate == false
   local found, seen = {}, {}
   local function enter(owner, path)
      for name, value in pick(owner) do
         if every or not seen[value] then
            seen[value] = true
            found[#found + 1] = {join(path, name), value}
         end
      end
   end
   local prefix = options.prefix or ""
   if options.recurse == false then
      enter(module, prefix)
   else
      M.visit(module, prefix, {enter = enter, once = not every})
   end
   return found
end

return M
