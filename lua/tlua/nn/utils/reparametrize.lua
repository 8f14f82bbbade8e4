-- reparametrize.lua - torch.nn.utils.weight_norm and spectral_norm in their older form, before
-- parametrizations: a hook computes the weight before each forward call. The stored parameters are
-- fields of the module: weight_g and weight_v, or weight_orig, weight_u and weight_v.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local hooks = require "tlua.nn.hooks"
local Module = require "tlua.nn.modules.Module"
local norms = require "tlua.nn.utils.norms"
local Parameter = require "tlua.nn.Parameter"

local M = {}

-- Puts a hook on a module that computes the parameter `name` by compute(module). The field
-- _recomputed of the module keeps the data that removing the hook needs.
local function install(title, kind, a, setup)
   if not class.isinstance(a.module, Module) then
      args.refuse(title, "module", "a module", a.module)
   end
   local module, name = a.module, a.name
   local known = rawget(module, "_recomputed") or {}
   if known[name] then
      torch.raise(("%s: %s of %s has it already"):format(title, name, torch.type(module)))
   end
   local weight = rawget(module, name)
   if not torch.is_tensor(weight) or not weight.is_parameter then
      torch.raise(("%s: %s has no parameter %s"):format(title, torch.type(module), name))
   end
   local compute, parts = setup(module, weight)
   local function hook(owner)
      rawset(owner, name, compute(owner))
   end
   known[name] = {kind = kind, compute = compute, hook = hook, parts = parts}
   rawset(module, "_recomputed", known)
   rawset(module, name, compute(module, true))
   hooks.add(module, "pre", hook)
   return module
end

-- Removes the hook. The weight becomes a parameter again, and keeps its last value.
local function uninstall(title, kind, module, name)
   name = name or "weight"
   if not class.isinstance(module, Module) then args.refuse(title, "module", "a module", module) end
   local known = rawget(module, "_recomputed") or {}
   local entry = known[name]
   if not entry or entry.kind ~= kind then
      torch.raise(("%s: %s of %s has none"):format(title, name, torch.type(module)))
   end
   local value
   do
      local _ <close> = torch.no_grad()
      value = entry.compute(module, true):detach():clone()
   end
   hooks.remove(module, entry.hook)
   known[name] = nil
   for _, part in ipairs(entry.parts) do
      rawset(module, part, nil)
      if rawget(module, "_buffers") then module._buffers[part] = nil end
   end
   rawset(module, name, nil)
   module[name] = Parameter(value)
   return module
end

local take_weight_norm = args.signature [[nn.utils.weight_norm(module: table,
   name: string = 'weight', dim: integer|boolean = 1)]]

--- Splits a weight into the parameters weight_g, its length, and weight_v, its direction. New
--- programs should use `parametrizations.weight_norm`.
---@param module nn.Module
---@param name? string  "weight" by default
---@param dim? integer|false  1 by default; false: one length for the whole weight
---@return nn.Module module
function M.weight_norm(...)
   local a = take_weight_norm(...)
   return install("nn.utils.weight_norm", "weight_norm", a, function(module, weight)
      local dim = norms.dimension("nn.utils.weight_norm", weight, a.dim)
      local g, v = a.name .. "_g", a.name .. "_v"
      rawset(module, a.name, nil)
      module[g] = Parameter(norms.except(weight:detach(), dim))
      module[v] = Parameter(weight:detach())
      return function(owner) return norms.scaled(owner[v], owner[g], dim) end, {g, v}
   end)
end

--- Makes a weight an ordinary parameter again.
---@param module nn.Module
---@param name? string  "weight" by default
---@return nn.Module module
function M.remove_weight_norm(module, name)
   return uninstall("nn.utils.remove_weight_norm", "weight_norm", module, name)
end

local take_spectral_norm = args.signature [[nn.utils.spectral_norm(module: table,
   name: string = 'weight', n_power_iterations: integer = 1, eps: number = 1e-12, dim: integer?)]]

--- Divides a weight by its largest singular value, estimated by the power method before each
--- forward call in training mode. New programs should use `parametrizations.spectral_norm`.
---@param module nn.Module
---@param name? string  "weight" by default
---@param options? {n_power_iterations: integer, eps: number, dim: integer}
---@return nn.Module module
function M.spectral_norm(...)
   local a = take_spectral_norm(...)
   local title = "nn.utils.spectral_norm"
   if a.n_power_iterations < 1 then
      args.refuse(title, "n_power_iterations", "an integer of at least 1", a.n_power_iterations)
   end
   return install(title, "spectral_norm", a, function(module, weight)
      local dim = norms.dimension(title, weight, a.dim or norms.output_dimension(module))
      norms.check_elements(title, a.name, weight)
      local orig, u, v = a.name .. "_orig", a.name .. "_u", a.name .. "_v"
      local matrix = norms.matrix(weight:detach(), dim)
      rawset(module, a.name, nil)
      module[orig] = weight
      module:register_buffer(u, F.normalize(torch.randn_like(matrix:select(2, 1)), {dim = 1}))
      module:register_buffer(v, F.normalize(torch.randn_like(matrix:select(1, 1)), {dim = 1}))
      return function(owner, still)
         local W = norms.matrix(owner[orig], dim)
         -- As in PyTorch, this hook updates v first. The parametrization updates u first.
         if owner.training and not still then
            norms.power_method(W:t(), owner[v], owner[u], a.n_power_iterations, a.eps)
         end
         local left, right = owner[u]:clone(), owner[v]:clone()
         return owner[orig] / torch.dot(left, torch.mv(W, right))
      end, {orig, u, v}
   end)
end

--- Makes a weight an ordinary parameter again.
---@param module nn.Module
---@param name? string  "weight" by default
---@return nn.Module module
function M.remove_spectral_norm(module, name)
   return uninstall("nn.utils.remove_spectral_norm", "spectral_norm", module, name)
end

return M
