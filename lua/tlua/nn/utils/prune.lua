-- prune.lua - torch.nn.utils.prune: holds some elements of parameters at zero. The parameter `name`
-- moves to `name_orig`, and the buffer `name_mask` is a mask of zeros and ones; parameter and mask
-- are saved with the model. Before each forward call a hook sets `name` to the product of parameter
-- and mask.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local hooks = require "tlua.nn.hooks"
local Module = require "tlua.nn.modules.Module"

local M = {}

local function same_shape(a, b)
   return table.concat(a.shape, ",") == table.concat(b.shape, ",")
end

local function check_scores(scores, tensor)
   if scores ~= nil and not (torch.is_tensor(scores) and same_shape(scores, tensor)) then
      args.refuse("prune", "importance_scores",
         ("a tensor of shape (%s)"):format(table.concat(tensor.shape, ", ")), scores)
   end
end

-- Methods -------------------------------------------------------------------------------------

--- The base class of pruning methods. A derived class has a field `PRUNING_TYPE` ("unstructured",
--- "structured" with a field `dim`, or "global") and a method `compute_mask(scores, default_mask)`.
---
---     local prune = torch.nn.utils.prune
---     local First = torch.class("ExampleFirst", prune.BasePruningMethod)
---     First.PRUNING_TYPE = "unstructured"
---     function First:compute_mask(_, mask)
---        mask = mask:clone()
---        mask[1] = 0
---        return mask
---     end
---     local layer = torch.nn.Linear(1, 2)
---     First:apply(layer, "bias")
---     print(layer.bias_mask)
---     --> tensor([0., 1.])
---@class nn.utils.prune.BasePruningMethod
local Base = class.class("nn.utils.prune.BasePruningMethod")
M.BasePruningMethod = Base

--- Returns the mask of the elements to keep: ones and zeros in the shape of default_mask, with ones
--- only where default_mask has ones.
function Base:compute_mask()
   torch.raise(("%s has no method compute_mask"):format(torch.type(self)))
end

--- Returns the pruned tensor of a module to which the method has been applied.
---@param module nn.Module
---@return Tensor
function Base:apply_mask(module)
   local name = self.tensor_name
   local orig = module[name .. "_orig"]
   return module[name .. "_mask"]:to(orig.dtype) * orig
end

--- Returns a pruned copy of a tensor.
---@param tensor Tensor
---@param default_mask? Tensor  ones by default
---@param importance_scores? Tensor  the scores by which elements are chosen; the tensor itself by
--- default
---@return Tensor
function Base:prune(tensor, default_mask, importance_scores)
   check_scores(importance_scores, tensor)
   default_mask = default_mask or torch.ones_like(tensor:detach())
   local scores = (importance_scores or tensor):detach()
   return tensor * self:compute_mask(scores, default_mask)
end

-- Returns the hook of a module's parameter, and its pruning method, from the field _prunings.
local function pruning_of(module, name)
   local known = rawget(module, "_prunings")
   return known and known[name]
end

local function check_parameter(title, module, name)
   if not class.isinstance(module, Module) then args.refuse(title, "module", "a module", module) end
   if type(name) ~= "string" then args.refuse(title, "name", "a string", name) end
   if pruning_of(module, name) then return end
   local tensor = rawget(module, name)
   if not torch.is_tensor(tensor) or not tensor.is_parameter then
      torch.raise(("%s: %s has no parameter %s"):format(title, torch.type(module), name))
   end
end

-- Applies a method to a parameter. Methods that were applied before remain in effect.
local function apply(method, module, name, scores)
   local _ <close> = torch.no_grad()
   method.tensor_name = name
   local before = pruning_of(module, name)
   local orig = before and module[name .. "_orig"] or rawget(module, name)
   check_scores(scores, orig)
   local mask
   if before then
      local container = before.method
      if not class.isinstance(container, M.PruningContainer) then
         container = M.PruningContainer(before.method)
      end
      mask = container:combine(method, (scores or module[name]):detach(),
         module[name .. "_mask"]:clone())
      container:add_pruning_method(method)
      method, before.method = container, container
   else
      mask = method:compute_mask((scores or orig):detach(), torch.ones_like(orig:detach()))
      local known = rawget(module, "_prunings") or {}
      rawset(module, "_prunings", known)
      local function hook(owner)
         rawset(owner, name, pruning_of(owner, name).method:apply_mask(owner))
      end
      known[name] = {method = method, hook = hook}
      rawset(module, name, nil)
      module[name .. "_orig"] = orig
      hooks.add(module, "pre", hook)
   end
   module:register_buffer(name .. "_mask", mask)
   rawset(module, name, torch.enable_grad(function() return method:apply_mask(module) end))
   return method
end

--- Makes an instance with the remaining arguments, and applies the instance:
--- `prune.L1Unstructured:apply(layer, "weight", 0.3)`. Elements that are pruned already stay
--- pruned.
---@param module nn.Module
---@param name string  the name of a parameter; or all by name, {name = "weight", amount = 0.3}
---@param ... any  the arguments of the class; the last may be {importance_scores = tensor}
---@return nn.utils.prune.BasePruningMethod
function Base:apply(module, name, ...)
   local list, options, scores = table.pack(...), {}, nil
   if type(name) == "table" and list.n == 0 then list, name = {n = 1, name}, nil end
   local last = list[list.n]
   if type(last) == "table" and not getmetatable(last) then
      for key, value in pairs(last) do options[key] = value end
      scores, options.importance_scores = options.importance_scores, nil
      if name == nil then name, options.name = options.name, nil end
      list[list.n] = options
      if not next(options) then list.n = list.n - 1 end
   end
   check_parameter("prune", module, name)
   return apply(self(table.unpack(list, 1, list.n)), module, name, scores)
end

--- Makes the parameter an ordinary one again, with its pruned values.
---@param module nn.Module
function Base:remove(module)
   local name = self.tensor_name
   local entry = name and pruning_of(module, name)
   if not entry then torch.raise("prune.remove: " .. torch.type(module) .. " is not pruned") end
   local orig = module[name .. "_orig"]
   do
      local _ <close> = torch.no_grad()
      orig:copy_(self:apply_mask(module))
   end
   hooks.remove(module, entry.hook)
   module._prunings[name] = nil
   if not next(module._prunings) then rawset(module, "_prunings", nil) end
   module._buffers[name .. "_mask"] = nil
   for _, suffix in ipairs {"", "_orig", "_mask"} do rawset(module, name .. suffix, nil) end
   module[name] = orig
end

--- Applies several methods in turn; each prunes elements that the earlier ones have kept.
---
---     local nn = torch.nn
---     local layer = nn.Linear(2, 2, false)
---     nn.init.constant_(layer.weight, 1)
---     layer.weight.data[{1, 2}] = 3
---     nn.utils.prune.l1_unstructured(layer, "weight", 2)
---     nn.utils.prune.ln_structured(layer, "weight", 1, 1, 1)
---     print(layer.weight_mask:sum():item())
---     --> 1.0
---@class nn.utils.prune.PruningContainer: nn.utils.prune.BasePruningMethod
local PruningContainer = class.class("nn.utils.prune.PruningContainer", Base)
M.PruningContainer = PruningContainer

function PruningContainer:__init(...)
   for _, method in ipairs {...} do
      if self.tensor_name == nil and class.isinstance(method, Base) then
         self.tensor_name = method.tensor_name
      end
      self:add_pruning_method(method)
   end
end

--- Adds a pruning method for the same parameter.
---@param method nn.utils.prune.BasePruningMethod
function PruningContainer:add_pruning_method(method)
   if not class.isinstance(method, Base) then
      args.refuse("prune.PruningContainer", "method", "a pruning method", method)
   end
   if self.tensor_name ~= method.tensor_name then
      torch.raise(("prune.PruningContainer: expected a method for %s, got one for %s"):format(
         tostring(self.tensor_name), tostring(method.tensor_name)))
   end
   self[#self + 1] = method
end

-- Returns two functions, which depend on the method's PRUNING_TYPE. The first returns the part of a
-- tensor that the method may still prune, since `mask` keeps it; for a "global" method, it returns
-- the whole tensor. The second writes such a part back into a tensor.
local function remaining(method, mask)
   if method.PRUNING_TYPE == "unstructured" then
      local where = mask:eq(1)
      return function(tensor) return tensor[where] end,
         function(tensor, part) tensor[where] = part end
   elseif method.PRUNING_TYPE == "global" then
      return function(tensor) return tensor end, function(tensor, part) tensor:copy_(part) end
   elseif method.PRUNING_TYPE ~= "structured" or not method.dim then
      torch.raise(("prune: %s: expected a PRUNING_TYPE unstructured, structured (with a field "
         .. "dim) or global, got %s"):format(torch.type(method), tostring(method.PRUNING_TYPE)))
   end
   local dim = method.dim < 0 and mask:dim() + 1 + method.dim or method.dim
   local others = {}
   for i = 1, mask:dim() do
      if i ~= dim then others[#others + 1] = i end
   end
   local kept = (#others > 0 and mask:sum(others) or mask):ne(0):nonzero():reshape(-1)
   return function(tensor) return tensor:index_select(dim, kept) end,
      function(tensor, part) tensor:index_copy_(dim, kept, part) end
end

--- Returns the mask after applying one more method. The method sees only the elements that `mask`
--- keeps; a "global" method sees all elements.
---@param method nn.utils.prune.BasePruningMethod
---@param scores Tensor
---@param mask Tensor
---@return Tensor
function PruningContainer:combine(method, scores, mask) -- luacheck: ignore self
   local pick, put = remaining(method, mask)
   local combined = mask:to(scores.dtype):clone()
   put(combined, method:compute_mask(pick(scores), pick(mask)):to(combined.dtype))
   return combined
end

function PruningContainer:compute_mask(scores, default_mask)
   return self:combine(self[#self], scores, default_mask)
end

-- The methods that there are ------------------------------------------------------------------

-- Raises an error unless an amount is a float from 0 to 1, which is a fraction, or an integer of at
-- least 0, which is a number of elements or positions.
local function check_amount(title, amount)
   local fits = math.type(amount) == "integer" and amount >= 0
      or math.type(amount) == "float" and amount >= 0 and amount <= 1
   if not fits then
      args.refuse(title, "amount", "an integer of at least 0 or a float from 0 to 1", amount)
   end
   return amount
end

local function round_to_even(x)
   local low = math.floor(x)
   local rest = x - low
   if rest > 0.5 or rest == 0.5 and low % 2 == 1 then low = low + 1 end
   return low
end

-- Converts an amount, a fraction or a number, to the number of elements or positions to prune out
-- of n.
local function count(title, amount, n)
   if math.type(amount) == "float" then return round_to_even(amount * n) end
   if amount > n then
      args.refuse(title, "amount", ("at most %d, the number of units"):format(n), amount)
   end
   return amount
end

local function check_dim(title, tensor, dim)
   local n = tensor:dim()
   if n < 2 then args.refuse(title, "tensor", "one of at least 2 dimensions", tensor) end
   if dim == 0 or dim > n or dim < -n then
      args.refuse(title, "dim", ("an integer from 1 to %d, or negative"):format(n), dim)
   end
   return dim < 0 and n + 1 + dim or dim
end

local function method(name, kind, signature)
   local Class = class.class("nn.utils.prune." .. name, Base)
   Class.PRUNING_TYPE = kind
   Class.title = "prune." .. name
   local take = args.signature(("prune.%s(%s)"):format(name, signature))
   function Class:__init(...)
      for key, value in pairs(take(...)) do self[key] = value end
      if self.amount then check_amount(self.title, self.amount) end
   end
   M[name] = Class
   return Class
end

-- Returns a copy of the mask with zeros at the positions of the k largest or smallest scores.
local function mask_out(mask, scores, k, largest)
   mask = mask:contiguous():clone()
   if k > 0 then
      local _, indices = scores:reshape(-1):topk(k, {largest = largest})
      mask:view(-1):index_fill_(1, indices, 0)
   end
   return mask
end

--- Prunes nothing, but makes the mask.
---
---     local layer = torch.nn.Linear(2, 1, false)
---     torch.nn.utils.prune.Identity:apply(layer, "weight")
---     print(layer.weight_mask)
---     --> tensor([[1., 1.]])
local Identity = method("Identity", "unstructured", "")
function Identity:compute_mask(_, default_mask) -- luacheck: ignore self
   return default_mask
end

--- Prunes elements at random.
---
---     local layer = torch.nn.Linear(4, 2, false)
---     torch.nn.utils.prune.RandomUnstructured:apply(layer, "weight", 3)
---     print(layer.weight_mask:sum():item())
---     --> 5.0
local RandomUnstructured = method("RandomUnstructured", "unstructured", "amount: number")
function RandomUnstructured:compute_mask(scores, default_mask)
   local k = count(self.title, self.amount, scores:numel())
   return mask_out(default_mask, torch.rand_like(scores), k, true)
end

--- Prunes the elements of the smallest absolute values.
---
---     local layer = torch.nn.Linear(2, 2, false)
---     torch.nn.init.constant_(layer.weight, 1)
---     layer.weight.data[{1, 2}] = 3
---     torch.nn.utils.prune.L1Unstructured:apply(layer, "weight", 3)
---     print(layer.weight_mask)
---     --> tensor([[0., 1.],
---     -->         [0., 0.]])
local L1Unstructured = method("L1Unstructured", "unstructured", "amount: number")
function L1Unstructured:compute_mask(scores, default_mask)
   local k = count(self.title, self.amount, scores:numel())
   return mask_out(default_mask, scores:abs(), k, false)
end

-- Returns a copy of the mask with zeros at all positions along dim except the positions in `kept`.
local function keep(default_mask, dim, kept)
   local mask = torch.zeros_like(default_mask)
   return mask:index_fill_(dim, kept, 1):mul_(default_mask)
end

--- Prunes whole positions along a dimension at random.
---
---     local layer = torch.nn.Linear(4, 2, false)
---     torch.nn.utils.prune.RandomStructured:apply(layer, "weight", 1, 1)
---     print(layer.weight_mask:sum():item())
---     --> 4.0
local RandomStructured = method("RandomStructured", "structured",
   "amount: number, dim: integer = -1")
function RandomStructured:compute_mask(scores, default_mask)
   local dim = check_dim(self.title, scores, self.dim)
   local n = scores:size(dim)
   local k = count(self.title, self.amount, n)
   if k == 0 then return default_mask end
   local _, kept = torch.rand(n, {device = scores.device}):topk(n - k)
   return keep(default_mask, dim, kept)
end

--- Prunes whole positions along a dimension: the positions whose elements have the smallest n-norm.
---
---     local layer = torch.nn.Linear(2, 2, false)
---     torch.nn.init.constant_(layer.weight, 1)
---     layer.weight.data[{1, 2}] = 3
---     torch.nn.utils.prune.LnStructured:apply(layer, "weight", 1, 2, 1)
---     print(layer.weight_mask)
---     --> tensor([[1., 1.],
---     -->         [0., 0.]])
local LnStructured = method("LnStructured", "structured",
   "amount: number, n: number|string, dim: integer = -1")
function LnStructured:compute_mask(scores, default_mask)
   local dim = check_dim(self.title, scores, self.dim)
   local size = scores:size(dim)
   local k = count(self.title, self.amount, size)
   if k == 0 then return default_mask end
   local others = {}
   for i = 1, scores:dim() do
      if i ~= dim then others[#others + 1] = i end
   end
   local norm = torch.norm(scores, self.n, others)
   local _, kept = norm:topk(size - k)
   return keep(default_mask, dim, kept)
end

--- Prunes the elements at which a given mask is zero.
---
---     local layer = torch.nn.Linear(2, 1, false)
---     local mask = torch.tensor {{1, 0}}
---     torch.nn.utils.prune.CustomFromMask:apply(layer, "weight", mask)
---     print(layer.weight:ne(0))
---     --> tensor([[ True, False]])
local CustomFromMask = method("CustomFromMask", "global", "mask: tensor")
function CustomFromMask:compute_mask(_, default_mask)
   if not same_shape(default_mask, self.mask) then
      args.refuse(self.title, "mask",
         ("a tensor of shape (%s)"):format(table.concat(default_mask.shape, ", ")), self.mask)
   end
   return default_mask * self.mask:to(default_mask.dtype)
end

-- By function ---------------------------------------------------------------------------------

--- Prunes a parameter of a module by the method that gives the function its name: the original
--- values become the parameter `<name>_orig`, and the module computes `<name>` from them and the
--- buffer `<name>_mask`. The further arguments are those of the method's class, such as
--- nn.utils.prune.L1Unstructured.
---
---     local layer = torch.nn.Linear(2, 1)
---     layer.weight.data = torch.tensor {{0.5, -2}}
---     torch.nn.utils.prune.l1_unstructured(layer, "weight", {amount = 1})
---     print(layer.weight:detach())
---     --> tensor([[ 0., -2.]])
---@names nn.utils.prune.identity nn.utils.prune.random_unstructured
---@names nn.utils.prune.l1_unstructured nn.utils.prune.random_structured
---@names nn.utils.prune.ln_structured nn.utils.prune.custom_from_mask
---@param module nn.Module
---@param parameter string  its name in the module
---@param ... any  the arguments of the method's class
---@return nn.Module module
for name, Class in pairs {
   identity = Identity, random_unstructured = RandomUnstructured,
   l1_unstructured = L1Unstructured, random_structured = RandomStructured,
   ln_structured = LnStructured, custom_from_mask = CustomFromMask,
} do
   M[name] = function(module, parameter, ...)
      Class:apply(module, parameter, ...)
      return module
   end
end

--- Prunes the elements with the smallest scores among all elements of several parameters.
---@param parameters table[]  {module, name} each
---@param pruning_method table  an unstructured class, such as prune.L1Unstructured; or all by name:
--- {pruning_method = prune.L1Unstructured, amount = 0.2}
---@param options table  the options of the class; importance_scores: a list, a tensor for each
--- parameter
function M.global_unstructured(parameters, pruning_method, options)
   if options == nil and type(pruning_method) == "table" and not getmetatable(pruning_method) then
      options, pruning_method = {}, pruning_method
      for key, value in pairs(pruning_method) do options[key] = value end
      pruning_method, options.pruning_method = options.pruning_method, nil
   end
   if type(parameters) ~= "table" then
      args.refuse("prune.global_unstructured", "parameters", "a list of {module, name}",
         parameters)
   end
   if type(pruning_method) ~= "table" or pruning_method.PRUNING_TYPE ~= "unstructured" then
      args.refuse("prune.global_unstructured", "pruning_method",
         "a class whose PRUNING_TYPE is unstructured", pruning_method)
   end
   local chosen, scores = {}, {}
   for key, value in pairs(options or {}) do
      if key == "importance_scores" then scores = value else chosen[key] = value end
   end
   local way = pruning_method(chosen)
   way.tensor_name = "all"
   local rows, masks = {}, {}
   for i, pair in ipairs(parameters) do
      local module, name = pair[1], pair[2]
      check_parameter("prune.global_unstructured", module, name)
      local tensor = module[name]:detach()
      check_scores(scores[i], tensor)
      rows[i] = (scores[i] or tensor):reshape(-1)
      masks[i] = (module[name .. "_mask"] or torch.ones_like(tensor)):reshape(-1)
   end
   local container = PruningContainer()
   container.tensor_name = "all"
   container:add_pruning_method(way)
   local mask = container:compute_mask(torch.cat(rows), torch.cat(masks))
   local start = 1
   for _, pair in ipairs(parameters) do
      local tensor = pair[1][pair[2]]
      M.custom_from_mask(pair[1], pair[2], mask:narrow(1, start, tensor:numel()):view_as(tensor))
      start = start + tensor:numel()
   end
end

--- Makes a pruned parameter an ordinary one again, with its pruned values.
---@param module nn.Module
---@param name string
---@return nn.Module module
function M.remove(module, name)
   if not class.isinstance(module, Module) then
      args.refuse("prune.remove", "module", "a module", module)
   end
   if type(name) ~= "string" then args.refuse("prune.remove", "name", "a string", name) end
   local entry = pruning_of(module, name)
   if not entry then
      torch.raise(("prune.remove: %s of %s is not pruned"):format(name, torch.type(module)))
   end
   entry.method:remove(module)
   return module
end

--- Returns whether a parameter of a module or of its descendants is pruned.
---@param module nn.Module
---@return boolean
function M.is_pruned(module)
   if not class.isinstance(module, Module) then
      args.refuse("prune.is_pruned", "module", "a module", module)
   end
   for _, part in ipairs(module:modules()) do
      if rawget(part, "_prunings") then return true end
   end
   return false
end

return M
