-- torch_names.lua - looks up PyTorch's names in tlua: whether they exist, which of their parameters
-- are dimensions or positions, and the types of their results. The facts about operators come from
-- their signatures, generated into `tlua.port.signatures`, and the facts about Lua functions from
-- the signatures of `tlua.args`.

local torch = require "tlua"
local args = require "tlua.args"
local lazy = require "tlua.lazy"
local suggest = require "tlua.utils.suggest"
local types = require "tlua.port.types"

local M = {}

local function signatures()
   return require "tlua.port.signatures"
end

--- Returns tlua's value for a dotted name such as "torch.nn.Linear". If there is none, returns nil
--- and the closest name.
---@param path string
---@return any value
---@return string? nearest
function M.find(path)
   local value = torch
   local so_far = "torch"
   for part in path:gsub("^torch%.?", ""):gmatch "[^.]+" do
      if type(value) ~= "table" then return nil end
      local owner = value
      -- Some tables of torch raise an error for an unknown name.
      local found, inner = pcall(function() return owner[part] end)
      if not found or inner == nil then
         local names = {}
         for name in pairs(owner) do names[name] = true end
         for name in pairs(lazy.fields(owner)) do names[name] = true end
         local nearest = suggest.nearest(part, names)
         return nil, nearest and so_far .. "." .. nearest
      end
      so_far = so_far .. "." .. part
      value = inner
   end
   return value
end

--- Returns whether tensors have a method or field of this name.
function M.is_method(name)
   local found, value = pcall(function() return torch.Tensor[name] end)
   return found and value ~= nil
end

local function parse(text)
   local list, results = text:match "^(.-) %-> (.*)$"
   local form = {results = results, named = false}
   for word in list:gmatch "%S+" do
      if word == "*" then
         form.named = true
      else
         local name, kind = word:match "^([%w_]+):(.*)$"
         form[#form + 1] = {name = name, kind = kind}
      end
   end
   return form
end

local parsed = {}

--- Returns the overloads of a function: An overload is a list of {name, kind}, one for each
--- parameter, with the field `results`, a text. Returns nil if nothing is known about the function.
---@param path string  "torch.sum", "torch.nn.Flatten"
---@return table[]?
function M.forms(path)
   if parsed[path] ~= nil then return parsed[path] or nil end
   local forms = {}
   for i, text in ipairs(signatures()[path] or {}) do forms[i] = parse(text) end
   if #forms == 0 and M.find(path) ~= nil then
      local signature = args.declaration((path:gsub("^torch%.", "")))
      if signature then
         local form = {results = "any"}
         for i, parameter in ipairs(signature) do
            form[i] = {name = parameter.name, kind = parameter.kinds}
         end
         forms[1] = form
      end
   end
   parsed[path] = #forms > 0 and forms or false
   return parsed[path] or nil
end

--- Returns the overloads of a tensor's method.
function M.method_forms(name)
   return M.forms("torch." .. name) or M.forms("torch." .. name:gsub("_$", ""))
end

local value_types = {
   boolean = types.bool, integer = types.int, number = types.num, string = types.str,
   ["number|boolean"] = types.num, ["integer[]"] = types.list_of(types.int),
   ["Tensor[]"] = types.list_of(types.tensor),
}
local positions = {
   argmax = true, argmin = true, argsort = true, multinomial = true, nonzero = true,
   randperm = true, searchsorted = true, bucketize = true,
}
local masks = {
   eq = true, ne = true, lt = true, le = true, gt = true, ge = true, isnan = true, isinf = true,
   isfinite = true, logical_not = true, logical_and = true, logical_or = true,
}

--- Returns the type of an overload's result.
---@param form table?
---@param name string  the operator's name
function M.result_type(form, name)
   if positions[name] then return types.positions end
   if masks[name] then return types.mask end
   local results = form and form.results or "Tensor"
   if results:find "," then
      local es = {}
      for result in results:gmatch "[^,]+" do
         es[#es + 1] = (result == "indices") and types.positions or types.tensor
      end
      return types.tuple_of(es, true)
   end
   if results == "any" then return nil end
   return value_types[results] or types.tensor
end

return M
