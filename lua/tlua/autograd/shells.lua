-- shells.lua - passes sparse, nested and masked tensors through functions of dense tensors. Each
-- such tensor has one dense main tensor, which the graph records and through which gradients flow.
-- The remaining components of the tensor are its shell, which refers to no tensor of the graph. The
-- function `shell` of the tensor's metatable makes the shell, a table with these fields:
--
--    wrap(main)    returns a tensor with the given main tensor
--    main(value)   returns the main tensor of a value with the same shell, nil for any other value
--    title         what the value should be, for messages

local torch = require "tlua"

local M = {}

local function shell_of(value)
   local meta = type(value) == "userdata" and getmetatable(value)
   return type(meta) == "table" and meta.shell and meta.shell(value)
end

--- Returns the shells of the wrapped tensors in a list, by position; nil if there are none.
---@param list table
---@return table<integer, table>?
function M.of(list)
   local shells
   for i, value in next, list do
      local shell = shell_of(value)
      if shell then
         shells = shells or {}
         shells[i] = shell
      end
   end
   return shells
end

--- Returns the main tensor of a wrapped tensor. For a plain table, returns a copy in which main
--- tensors replace wrapped tensors. Returns any other value unchanged.
---@param value any
---@param who? string  the function, for messages
---@param likes? table  a shell that the tensor must have, or such shells by position
---@return any
function M.open(value, who, likes)
   if type(value) == "table" and not getmetatable(value) then
      local copy = {}
      for key, item in pairs(value) do
         copy[key] = M.open(item, who, key ~= "inputs" and likes and (likes[key] or likes) or nil)
      end
      return copy
   end
   local shell = shell_of(value)
   if not shell then return value end
   local like = likes and (likes.main and likes or likes[1]) or shell
   return like.main(value) or torch.raise(("%s: expected a %s as gradient, got %s"):format(who,
      like.title, require "tlua.args".describe(value)))
end

--- Wraps the tensors of a list at the positions of shells, in place.
---@param list table
---@param shells table<integer, table>?
---@return table
function M.wrap(list, shells)
   for i, shell in pairs(shells or {}) do
      if list[i] ~= nil then list[i] = shell.wrap(list[i]) end
   end
   return list
end

-- Returns the shells of a list of tensors, or the shell of a single tensor.
local function all_of(value)
   return M.of(type(value) == "table" and value or {value})
end

--- Computes torch.autograd.grad of wrapped outputs or with respect to wrapped inputs.
---@param outputs any
---@param inputs any
---@param ... any
---@return any ...
function M.grad(outputs, inputs, ...)
   local who <const>, shells = "autograd.grad", all_of(inputs)
   local rest = table.pack(...)
   local grads = table.pack(torch.autograd.grad(M.open(outputs), M.open(inputs),
      table.unpack(M.open(rest, who, all_of(outputs)), 1, rest.n)))
   return table.unpack(M.wrap(grads, shells), 1, grads.n)
end

--- Runs the backward pass from a wrapped tensor.
---@param x Tensor
---@param ... any
function M.backward(x, ...)
   local main, first, rest = M.open(x), (...), table.pack(...)
   if type(first) == "table" then first = first.gradient end
   if first == nil and main:numel() == 1 and x:numel() ~= 1 then
      torch.raise(("backward: expected a gradient, since the tensor has %d elements"):format(
         x:numel()))
   end
   return main:backward(table.unpack(M.open(rest, "backward", shell_of(x)), 1, rest.n))
end

return M
