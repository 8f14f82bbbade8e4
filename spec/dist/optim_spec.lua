-- Tests optimizers of parameters that are split over ranks. The reference is one process that makes the same steps with
-- the same gradients on whole parameters.

local ranks = require "spec.dist.ranks"

local _, case <const> = ranks:run_after "optim"

describe("optimizers of split parameters", function()
   it("step each element as in one process: fully_shard, parallel layers, ZeRO", case(2, [==[
      for _, how in ipairs {"fully_shard", "parallel layers", "ZeRO"} do
         for _, row in ipairs {
            {"SGD", {lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.01}},
            {"Adam", {lr = 0.01, amsgrad = true}}, {"AdamW", {lr = 0.01}}, {"Adadelta", {}},
            {"Adagrad", {lr = 0.1}}, {"Adamax", {}}, {"ASGD", {}}, {"NAdam", {}}, {"RAdam", {}},
            {"RMSprop", {momentum = 0.9, centered = true}}, {"Rprop", {}}, {"Lion", {lr = 0.01}},
         } do
            local name, options = table.unpack(row)
            train(how, true, function(params, split_how)
               if split_how ~= "ZeRO" then return optim[name](params, options) end
               local o = {optimizer_class = optim[name]}
               for key, value in pairs(options) do o[key] = value end
               return Zero(params, o)
            end)
         end
      end
   ]==]))

   it("clip by the norm of all parts in a step with max_norm", case({2, 4}, [==[
      local third = size == 2 and "parallel layers" or size == 4 and "both" or nil
      for _, how in ipairs {"fully_shard", "ZeRO", third} do
         for _, norm_type in ipairs {2, 1, math.huge} do
            for _, name in ipairs {"SGD", "AdamW", "Adafactor"} do
               if name ~= "Adafactor" or how == "ZeRO" then
                  train(how, true, function(params, split_how)
                     if split_how ~= "ZeRO" then return optim[name](params, {lr = 0.1}) end
                     return Zero(params, {optimizer_class = optim[name], lr = 0.1})
                  end, {max_norm = 0.5, norm_type = norm_type})
               end
            end
         end
      end
   ]==]))

   it("gather whole matrices if they need them: Muon", case({2, 3, 4}, [==[
      local third = size == 2 and "parallel layers" or size == 4 and "both" or nil
      for _, how in ipairs {"fully_shard", "ZeRO", third} do
         for _, nesterov in ipairs {true, false} do
            train(how, false, function(params, split_how)
               local o = {lr = 0.02, nesterov = nesterov, adjust_lr_fn = "match_rms_adamw"}
               if split_how ~= "ZeRO" then return optim.Muon(params, o) end
               o.optimizer_class = optim.Muon
               return Zero(params, o)
            end, {max_norm = 1.0})
         end
      end
      local model = build(true)
      refused("parameter 2: expected a matrix, got a tensor of shape (10)", optim.Muon,
         dist.fsdp.fully_shard(model):parameters())
   ]==]))

   it("are refused if they need more than a rank's part", case(2, [==[
      for _, how in ipairs {"fully_shard", "parallel layers"} do
         for _, name in ipairs {"Adafactor", "SparseAdam", "LBFGS"} do
            -- With parallel layers, SparseAdam refuses only a parameter that is split by rows, which is parameter 3.
            local rows = how == "parallel layers" and name == "SparseAdam"
            local text = ("optim.%s: parameter %d: it is split over ranks, by fully_shard or tensor"):format(name,
               rows and 3 or 1)
            refused(text, optim[name], split(how, build(true)):parameters())
            local model = build(true)
            local early = optim[name](model:parameters())
            split(how, model)
            refused(text, early.step, early, function() return torch.ones({}) end)
         end
      end
      local model = build(true)
      local adam = optim.Adam(model:parameters())
      for _, p in ipairs(model:parameters()) do p.grad = torch.ones_like(p) end
      adam:step()
      split("fully_shard", model)
      refused("optim.Adam: parameter 1: its state exp_avg is of shape (10, 6)", adam.step, adam)
      refused(("but fully_shard has left this rank a part of %d elements; make the optimizer after " ..
         "fully_shard"):format(rank == 0 and 35 or 25), adam.step, adam)
      refused("ZeroRedundancyOptimizer: parameter 1: expected one that all ranks have whole, but it is split",
         Zero, model:parameters(), {optimizer_class = optim.SGD})
      refused("ZeroRedundancyOptimizer: optimizer_class: a step of LBFGS needs all parameters", Zero,
         build(true):parameters(), {optimizer_class = optim.LBFGS})
      refused("DistributedDataParallel: parameter 1: expected one that all ranks have whole, but it is split",
         nn.parallel.DistributedDataParallel, model)
   ]==]))
end)
