-- losses.lua - the cross-entropy of logits whose classes are split over ranks, so that no rank has
-- all logits: "Megatron-LM" (Shoeybi et al., 2019), section 3.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local device_mesh = require "tlua.distributed.device_mesh"
local F = require "tlua.nn.functional"
local Function = require "tlua.autograd.Function"
local scopes = require "tlua.scope"

local M = {}

local CrossEntropy = class.class("distributed.tensor.cross_entropy", Function)

local function reduce_all(tensor, op, group)
   group:run("all_reduce", {outputs = tensor, op = op})
   return tensor
end

-- Computes the loss of each sample. `logits` (n, classes) has this rank's classes. `own` (n) is the
-- index of the target among this rank's classes, or 1 where `elsewhere` (n) is true, because
-- another rank has the target's class.
function CrossEntropy.forward(ctx, logits, own, elsewhere, group)
   local most = reduce_all((logits:max(2)):contiguous(), "max", group)
   local shifted = (logits - most:unsqueeze(2)):exp_()
   local total = reduce_all(shifted:sum(2), "sum", group)
   local at = logits:gather(2, own:unsqueeze(2)):squeeze(2):masked_fill(elsewhere, 0)
   at = reduce_all(at:contiguous(), "sum", group)
   ctx:save_for_backward(shifted:div_(total:unsqueeze(2)), own, elsewhere)
   -- The difference of the largest logit and the target's logit is exact even if both are large.
   return total:log() + (most - at)
end

function CrossEntropy.backward(ctx, grad)
   local probabilities, own, elsewhere = ctx:saved_tensors()
   local hit = elsewhere:logical_not():to(probabilities.dtype):unsqueeze(2)
   local rest = probabilities:scatter_add(2, own:unsqueeze(2), -hit)
   return rest * grad:unsqueeze(2)
end

local reductions <const> = {mean = true, sum = true, none = true}

local function text(shape) return table.concat(shape, ", ") end

-- Returns the number of classes on each rank, and on all ranks together. Raises an error unless
-- input (n, classes, ...), target (n, ...), weight and reduction match.
local function check(a, ranks)
   local name <const> = "cross_entropy"
   if a.input:dim() < 2 then
      args.refuse(name, "input", "a tensor of shape (n, classes, ...)", a.input)
   end
   local classes, expected = a.input:size(2), {a.input:size(1)}
   for d = 3, a.input:dim() do expected[#expected + 1] = a.input:size(d) end
   if text(a.target.shape) ~= text(expected) then
      args.refuse(name, "target", ("a tensor of shape (%s)"):format(text(expected)), a.target)
   end
   if not reductions[a.reduction] then
      args.refuse(name, "reduction", '"mean", "sum" or "none"', a.reduction)
   end
   local all = classes * ranks
   if a.weight and text(a.weight.shape) ~= tostring(all) then
      args.refuse(name, "weight", ("one of each class of all ranks, (%d)"):format(all), a.weight)
   end
   return classes, all
end

-- Raises an error unless all targets are class numbers from 1 to `all`. Targets on other devices
-- than the CPU are not checked. The caller sets ignored targets to 1 beforehand.
local function check_targets(target, all)
   if not target.is_cpu or target:numel() == 0 then return end
   local least, most = target:min():item(), target:max():item()
   if least < 1 or most > all then
      torch.raise(("cross_entropy: target: expected classes from 1 to %d, got %d"):format(all,
         least < 1 and least or most))
   end
end

-- Computes the loss for the arguments a = {input, target, weight, reduction, ignore_index}.
local function compute(group, a)
   local classes, all = check(a, #group.ranks)
   local input, target = a.input, a.target:reshape(-1)
   if input:dim() > 2 then input = input:movedim(2, -1):reshape(-1, classes) end
   local ignored = target:eq(a.ignore_index)
   local plain = target:masked_fill(ignored, 1)
   check_targets(plain, all)
   local own = plain - group.group_rank * classes
   local elsewhere = own:lt(1):logical_or(own:gt(classes)):logical_or(ignored)
   local losses = CrossEntropy:apply(input:float(), own:masked_fill(elsewhere, 1), elsewhere, group)
   local weight = ignored:logical_not():to(losses.dtype)
   if a.weight then weight = weight * a.weight:detach():float()[plain] end
   losses = losses:masked_fill(ignored, 0)
   if a.weight then losses = losses * weight end
   if a.reduction == "none" then return losses:view(a.target.shape) end
   if a.reduction == "sum" then return losses:sum() end
   return losses:sum() / weight:sum()
end

local take_loss = args.signature [[cross_entropy(input: tensor, target: tensor, mesh: object,
   reduction: string = 'mean', ignore_index: integer = -100, weight: tensor?)]]

--- Computes the cross-entropy of logits whose classes are split over the ranks of a mesh, as a
--- ColwiseParallel layer returns them. No rank gathers all logits. The loss is computed in float32.
---@param input Tensor  (n, C / N, ...): this rank's classes
---@param target Tensor  (n, ...): classes from 1 to C, the same on all ranks
---@param mesh distributed.DeviceMesh
---@param options? {reduction: string, ignore_index: integer, weight: Tensor}  reduction: "mean",
--- "sum" or "none"; weight: (C), one weight for each class, on all ranks
---@return Tensor  0-d, or of target's shape; the same on all ranks
function M.cross_entropy(...)
   local a = take_loss(...)
   return compute(device_mesh.group_of("cross_entropy", a.mesh), a)
end

local take_plain = args.signature [[cross_entropy(input: tensor, target: tensor, weight: tensor?,
   ignore_index: integer = -100, reduction: string = 'mean', label_smoothing: number = 0)]]

local take_scope = args.signature "loss_parallel(mesh: object?, fn: function?)"

--- Makes F.cross_entropy, and so nn.CrossEntropyLoss, take logits whose classes are split over the
--- ranks of a mesh (all ranks by default), while fn runs or until the scope is closed: see
--- cross_entropy. Gradients cover this rank's classes, even if backward runs after the scope.
--- label_smoothing is refused.
---
---    local loss = tp.loss_parallel(mesh, function() return F.cross_entropy(model(x), y) end)
---@param mesh? distributed.DeviceMesh
---@param fn? function
---@return any ...  the results of fn, or the scope, which the caller closes
function M.loss_parallel(mesh, fn, ...)
   local a = take_scope(mesh, fn)
   local group = device_mesh.group_of("loss_parallel", a.mesh)
   return scopes.with_field(F, "cross_entropy", function(...)
      local b = take_plain(...)
      if b.label_smoothing ~= 0 then
         torch.raise("cross_entropy: label_smoothing: expected 0 within loss_parallel, got " ..
            b.label_smoothing)
      end
      return compute(group, b)
   end, fn, ...)
end

return M
