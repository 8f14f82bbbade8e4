-- Tests a GPT that is split over data, tensor and pipeline parallel ranks at once. One process trains the same model on
-- the whole batch, and gives the reference values.

local ranks = require "spec.dist.ranks"

local _, case <const> = ranks:run_after "gpt"

describe("a GPT on 2 x 2 x 2 ranks", function()
   for _, kind in ipairs {"fully_shard", "DistributedDataParallel"} do
      it("follows one process: pipeline, " .. kind .. ", tensor parallel", case(8, [==[
         local kind = "]==] .. kind .. [==["
         local mesh = dist.init_device_mesh("cpu", {2, 2, 2},
            {mesh_dim_names = {"pp", "dp", "tp"}})
         local at, part = mesh.pp:get_local_rank(), mesh.dp:get_local_rank()
         local model = GPT():part(at, 2)
         tp.parallelize_module(model, mesh.tp, plan(model))
         if kind == "fully_shard" then
            for _, block in ipairs(model.blocks) do fsdp.fully_shard(block, {mesh = mesh.dp}) end
            fsdp.fully_shard(model, {mesh = mesh.dp})
         else
            model = nn.parallel.DistributedDataParallel(model,
               {process_group = mesh.dp:get_group()})
         end
         local stage = pipe.PipelineStage(model, at, 2, {group = mesh.pp:get_group()})
         local schedule = pipe.Schedule1F1B(stage, 2, {loss_fn = function(logits, target)
            return tp.cross_entropy(logits:flatten(1, 2), target:flatten(), mesh.tp)
         end})
         local adam = torch.optim.AdamW(model:parameters(), {lr = 3e-3})
         local alone, other
         if rank == 7 then
            alone = GPT()
            other = torch.optim.AdamW(alone:parameters(), {lr = 3e-3})
         end
         local worst, first, last = 0, nil, nil
         -- With MPI, ranks that share a processor wait long for one another, so fewer steps are made.
         local steps = BACKEND == "mpi" and 10 or 50
         for step = 1, steps do
            local x, y = batch(step)
            local function mine(t) return t:narrow(1, part * 4 + 1, 4) end
            adam:zero_grad()
            local losses = {}
            if at == 0 then schedule:step(mine(x)) else
               schedule:step {target = mine(y), losses = losses}
            end
            adam:step()
            if at == 1 then
               local loss = torch.stack(losses):mean()
               dist.all_reduce(loss, "avg", mesh.dp:get_group())
               if rank == 7 then
                  other:zero_grad()
                  local expected = F.cross_entropy(alone(x):flatten(1, 2), y:flatten())
                  expected:backward()
                  other:step()
                  worst = math.max(worst, math.abs(expected:item() - loss:item()))
                  first, last = first or loss:item(), loss:item()
               end
            end
         end
         if rank == 7 then
            print(("loss %.3f to %.3f, off by %.1e"):format(first, last, worst))
            assert(worst < 1e-5, "the loss is off by " .. worst)
            assert(last < (steps < 50 and first or first / 2), "nothing was learnt")
         end
      ]==]))
   end
end)
