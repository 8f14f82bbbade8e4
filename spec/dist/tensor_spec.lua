-- Tests tensor parallelism. One process runs the same layers, and gives the reference values.

local ranks = require "spec.dist.ranks"

local _, case <const> = ranks:run_after "tensor"

describe("parallelize_module", function()
   it("splits a block by columns and rows, with results and gradients of one process", case({2, 4}, [==[
      local alone, model = model_of(Block), model_of(Block)
      tp.parallelize_module(model, mesh.tp, {
         q = tp.ColwiseParallel(), k = tp.ColwiseParallel(), v = tp.ColwiseParallel(),
         o = tp.RowwiseParallel(),
         ["mlp.1"] = tp.ColwiseParallel(), ["mlp.3"] = tp.RowwiseParallel(),
      })
      check({64 // size, 16}, model.mlp[1].weight.shape)
      check({16, 64 // size}, model.mlp[3].weight.shape)
      torch.manual_seed(6)
      local a = torch.randn(2, 3, 16, {requires_grad = true})
      local b = a:detach():clone():requires_grad_()
      local adam = torch.optim.SGD(model:parameters(), {lr = 0.1})
      local other = torch.optim.SGD(alone:parameters(), {lr = 0.1})
      for _ = 1, 3 do
         adam:zero_grad() other:zero_grad()
         local expected, got = alone(a), model(b)
         near(got, expected)
         ;(expected ^ 2):sum():backward() ;(got ^ 2):sum():backward()
         near(b.grad, a.grad, 1e-4)
         near_model(model, alone, 2e-4)
         near(nn.utils.clip_grad_norm_(model:parameters(), 1),
            nn.utils.clip_grad_norm_(alone:parameters(), 1), 1e-3)
         adam:step() other:step()
      end
      near_model(model, alone, 1e-4)
   ]==]))

   it("splits sequences between the split layers", case(2, [==[
      local alone, model = model_of(Block), model_of(Block)
      local part = Shard(2)
      tp.parallelize_module(model, mesh, {
         ln_1 = tp.SequenceParallel(), ln_2 = tp.SequenceParallel(),
         q = tp.ColwiseParallel {input_layouts = part},
         k = tp.ColwiseParallel {input_layouts = part},
         v = tp.ColwiseParallel {input_layouts = part},
         o = tp.RowwiseParallel {output_layouts = part},
         ["mlp.1"] = tp.ColwiseParallel {input_layouts = part},
         ["mlp.3"] = tp.RowwiseParallel {output_layouts = part},
      })
      tp.parallelize_module(model, mesh, tp.PrepareModuleInput {input_layouts = Replicate(),
         desired_input_layouts = part})
      tp.parallelize_module(model, mesh, tp.PrepareModuleOutput {output_layouts = part,
         desired_output_layouts = Replicate()})
      torch.manual_seed(6)
      local a = torch.randn(2, 4, 16, {requires_grad = true})
      local b = a:detach():clone():requires_grad_()
      local expected, got = alone(a), model(b)
      near(got, expected)
      ;(expected ^ 2):sum():backward() ;(got ^ 2):sum():backward()
      near(b.grad, a.grad, 1e-4)
      near_model(model, alone, 2e-4)
      refused("of size 3, cannot be split over 2 ranks", model, torch.randn(2, 3, 16))
      local tanh = nn.Tanh()
      tp.parallelize_module(tanh, mesh, tp.PrepareModuleInputOutput {input_layouts = Replicate(),
         desired_input_layouts = part, output_layouts = part, desired_output_layouts = Replicate()})
      b.grad = nil
      got = tanh(b)
      near(got, a:tanh())
      got:sum():backward()
      near(b.grad, 1 - a:tanh() ^ 2, 1e-6)
      refused("PrepareModuleInputOutput: desired_input_layouts: expected", tp.PrepareModuleInputOutput,
         {input_layouts = part, desired_input_layouts = 1, output_layouts = part,
         desired_output_layouts = part})
   ]==]))

   it("splits vocabularies, and computes the loss of split classes", case(4, [==[
      local function build()
         torch.manual_seed(2)
         return nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12, {bias = false}))
      end
      local alone, model = build(), build()
      tp.parallelize_module(model, mesh,
         {["1"] = tp.RowwiseParallel(), [2] = tp.ColwiseParallel()})
      local tokens = torch.tensor {1, 12, 5, 7, 3, 12, 2}
      local targets = torch.tensor {12, 1, 4, -100, 9, 6, 7}
      for _, reduction in ipairs {"mean", "sum"} do
         model:zero_grad() alone:zero_grad()
         local expected = F.cross_entropy(alone(tokens) * 3, targets, {reduction = reduction})
         local got = tp.cross_entropy(model(tokens) * 3, targets, {mesh = mesh,
            reduction = reduction})
         near(got, expected)
         expected:backward() got:backward()
         near_model(model, alone)
      end
      local losses = tp.cross_entropy(model(tokens), targets, mesh, {reduction = "none"})
      near(losses, F.cross_entropy(alone(tokens), targets, {reduction = "none"}))
      -- Layers that are split by columns give the whole result on every rank.
      local by_columns = tp.parallelize_module(build(), mesh, {
         ["*"] = tp.ColwiseParallel {output_layouts = Replicate()}})
      near(by_columns(tokens), alone(tokens))
      by_columns(tokens):pow(2):sum():backward()
      alone:zero_grad()
      alone(tokens):pow(2):sum():backward()
      near_model(by_columns, alone, 2e-5)
   ]==]))

   -- One process calls F.cross_entropy on all classes for the reference values.
   it("has cross_entropy take a rank's classes within loss_parallel", case(2, [==[
      torch.manual_seed(4)
      local plain, mesh = F.cross_entropy, dist.init_device_mesh("cpu", {2})
      local function mine(t) return t:narrow(2, rank * 3 + 1, 3) end
      local weight = torch.rand(6)
      for _, shape in ipairs {{5}, {5, 2, 3}} do
         local sizes = table.move(shape, 2, #shape, 3, {shape[1], 6})
         local logits = torch.randn(sizes, {requires_grad = true})
         local part = mine(logits.data):clone():requires_grad_()
         local target = torch.randint(1, 7, shape)
         target:view(-1)[2] = -100
         for _, o in ipairs {{}, {reduction = "sum"}, {weight = weight},
            {weight = weight, reduction = "none", ignore_index = 3}} do
            local t = o.ignore_index and target:masked_fill(target:eq(-100), 3) or target
            local expected = F.cross_entropy(logits, t, o)
            local got = tp.loss_parallel(mesh, function() return F.cross_entropy(part, t, o) end)
            near(got, expected)
            logits.grad, part.grad = nil, nil
            expected:sum():backward()
            got:sum():backward()
            near(part.grad, mine(logits.grad))
         end
      end
      local logits, target = torch.randn(4, 6), torch.tensor {1, 6, 3, 4}
      do
         local _ <close> = tp.loss_parallel()
         near(nn.CrossEntropyLoss()(mine(logits), target), plain(logits, target))
         local even = torch.randint(-32, 33, {4, 6}):float() / 16
         -- Adding a constant to all logits does not change the loss. The addition itself is exact, because the logits
         -- are multiples of 1/16.
         for _, shift in ipairs {0, 1 << 19} do
            near(F.cross_entropy(mine(even + shift), target), plain(even, target), 1e-6)
         end
         refused("label_smoothing: expected 0 within loss_parallel, got 0.5", F.cross_entropy,
            mine(logits), target, {label_smoothing = 0.5})
         refused("target: expected classes from 1 to 6, got 7", F.cross_entropy, mine(logits),
            target + 1)
         refused("target: expected classes from 1 to 6, got 0", F.cross_entropy, mine(logits),
            target - 1)
         refused("target: expected a tensor of shape (4), got", F.cross_entropy, mine(logits),
            target:narrow(1, 1, 3))
         refused("weight: expected one of each class of all ranks, (6)", F.cross_entropy,
            mine(logits), target, {weight = weight:narrow(1, 1, 3)})
         refused("input: expected a tensor of shape (n, classes, ...)", F.cross_entropy,
            logits:view(-1), target)
      end
      refused("on purpose", tp.loss_parallel, mesh, function() error("on purpose", 0) end)
      check(plain, F.cross_entropy)
      refused("mesh: expected an object, got 3", tp.loss_parallel, 3)
   ]==]))

   it("works with fully_shard", case(4, [==[
      local both = dist.init_device_mesh("cpu", {2, 2}, {mesh_dim_names = {"dp", "tp"}})
      local alone, model = model_of(Block), model_of(Block)
      tp.parallelize_module(model, both.tp, {
         ["q"] = tp.ColwiseParallel(), k = tp.ColwiseParallel(), v = tp.ColwiseParallel(),
         o = tp.RowwiseParallel(), ["mlp.1"] = tp.ColwiseParallel(),
         ["mlp.3"] = tp.RowwiseParallel(),
      })
      dist.fsdp.fully_shard(model.mlp, {mesh = both.dp})
      dist.fsdp.fully_shard(model, {mesh = both.dp})
      torch.manual_seed(6)
      local x = torch.randn(4, 3, 16)
      local mine = x:narrow(1, both.dp:get_local_rank() * 2 + 1, 2)
      local adam = torch.optim.SGD(model:parameters(), {lr = 0.1})
      local other = torch.optim.SGD(alone:parameters(), {lr = 0.1})
      for _ = 1, 3 do
         adam:zero_grad() other:zero_grad()
         ;(alone(x) ^ 2):mean():backward()
         ;(model(mine) ^ 2):mean():backward()
         near_model(model, alone, 2e-5)
         near(nn.utils.clip_grad_norm_(model:parameters(), 0.1),
            nn.utils.clip_grad_norm_(alone:parameters(), 0.1))
         adam:step() other:step()
      end
      near_model(model, alone, 2e-4)
   ]==]))

   it("refuses plans that do not fit, on every rank", case(2, [==[
      local model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
      local split = tp.parallelize_module
      refused("nn.Sequential has no module 7", split, model, mesh, {[7] = tp.ColwiseParallel()})
      refused("nn.Sequential has no module a.b", split, model, mesh,
         {["a.b"] = tp.ColwiseParallel()})
      refused("dimension 1 of 1.weight, of size 3, cannot be split over 2 ranks", split, model,
         mesh, {[1] = tp.ColwiseParallel()})
      refused("2: ColwiseParallel takes nn.Linear and nn.Embedding, got nn.ReLU", split, model,
         mesh, {[2] = tp.ColwiseParallel()})
      refused('plan["1"]: expected a style such as ColwiseParallel(), got 1', split, model, mesh,
         {[1] = 1})
      refused("mesh: expected a mesh", split, model, nil, {})
      refused("input_layouts: expected a layout", tp.ColwiseParallel, {input_layouts = mesh})
      refused("entry of the plan 1 is 1: " .. (rank == 0 and "Rowwise" or "Colwise"), split,
         model, mesh, {[1] = rank == 0 and tp.RowwiseParallel() or tp.ColwiseParallel()})
      split(model, mesh, {[1] = tp.RowwiseParallel()})
      refused("1.weight is split already", split, model, mesh, {[1] = tp.RowwiseParallel()})
      local wide = dist.init_device_mesh("cpu", {1, 2}, {mesh_dim_names = {"dp", "tp"}})
      refused("mesh: expected one dimension, such as mesh.dp", split, model, wide, {})
   ]==]))
end)

-- The reference values are the tensor before the split, and the results that one process computes from that tensor.
describe("DTensor", function()
   it("gives each rank its part, and the whole tensor on request", case(4, [==[
      local T, Partial = dist.tensor, dist.tensor.Partial
      local mesh = dist.init_device_mesh("cpu", {2, 2})
      local i, j = table.unpack(mesh:get_coordinate())
      local w = torch.arange(32):float():view(4, 8)
      -- the tensors of other ranks are wrong on purpose, because only rank 0's tensor is distributed
      local given = w + (rank == 0 and 0 or 100)
      local cases = { -- each case has placements and the local tensor that a rank should get
         {{Replicate(), Replicate()}, w},
         {{Shard(1), Replicate()}, w:narrow(1, 2 * i + 1, 2)},
         {{Replicate(), Shard(-1)}, w:narrow(2, 4 * j + 1, 4)},
         {{Shard(2), Shard(1)}, w:narrow(2, 4 * i + 1, 4):narrow(1, 2 * j + 1, 2)},
         {{Shard(2), Shard(2)}, w:narrow(2, 4 * i + 2 * j + 1, 2)},
         {{Shard(1), Shard(1)}, w:narrow(1, 2 * i + j + 1, 1)},
      }
      for _, case in ipairs(cases) do
         local d = T.distribute_tensor(given, mesh, case[1])
         near(d:to_local(), case[2], 0)
         near(d:full_tensor(), w, 0)
         check({4, 8}, d.shape)
         check({32, 2, 8, "float32"}, {d:numel(), d:dim(), d:size(-1), d.dtype})
         near(T.DTensor.from_local(case[2], mesh, case[1]):full_tensor(), w, 0)
         for _, other in ipairs(cases) do
            local moved = d:redistribute(nil, other[1])
            near(moved:to_local(), other[2], 0, tostring(d) .. " to " .. tostring(moved))
            assert(moved.placements[1] == other[1][1])
         end
         -- The placement "partial" means that the tensor is the sum of the local tensors over the first dimension of
         -- the mesh.
         local parts = T.DTensor.from_local(d:to_local() * (i + 1), mesh,
            {Partial(), case[1][2]})
         if case[1][1] == Replicate() then
            near(parts:full_tensor(), w * 3, 0)
            for _, other in ipairs(cases) do
               near(parts:redistribute(mesh, other[1]):to_local(), other[2] * 3, 0)
            end
         end
      end
      for k, name in ipairs {"zeros", "ones", "full"} do
         local split = {Shard(1), Shard(2)}
         local d = name == "full" and T.full({4, 8}, 7.0, {device_mesh = mesh, placements = split})
            or T[name]({4, 8}, {device_mesh = mesh, placements = split})
         near(d:full_tensor(), torch.full({4, 8}, ({0.0, 1.0, 7.0})[k]), 0)
         check({2, 4}, d:to_local().shape)
      end
      local flags = T.ones({4}, {device_mesh = mesh, dtype = "int64"})
      check({1, 1, 1, 1}, flags:to_local())
      check(true, T.zeros(4, mesh, nil, {requires_grad = true}).requires_grad)
      refused("distributed.tensor.ones: dimension 1, of size 3, cannot be split over 2 ranks", T.ones,
         {3}, mesh, {Shard(1), Replicate()})
      refused("distributed.tensor.zeros: device_mesh: ", T.zeros, {3}, 5)
      check("DTensor(float32 (4, 8), {Shard(1), Replicate()}, DeviceMesh(cpu, (2, 2)))",
         tostring(T.distribute_tensor(w, mesh, {Shard(1), Replicate()})))
   ]==]))

   it("has gradients that are split in the same way", case(2, [==[
      local T, mesh = dist.tensor, dist.init_device_mesh("cpu", {2})
      torch.manual_seed(3)
      local w, x, v = torch.randn(4, 6, {requires_grad = true}), torch.randn(5, 6), torch.randn(5, 4);
      (x:matmul(w:t()):tanh() * v):sum():backward()
      local function mine(t, dim) return t:narrow(dim, rank * t:size(dim) // 2 + 1, t:size(dim) // 2) end
      for _, dim in ipairs {1, 2} do
         local d = T.distribute_tensor(w, mesh, {Shard(dim)})
         assert(d.requires_grad and d.is_leaf and d.grad == nil)
         -- full_tensor returns the whole tensor on every rank
         ;(x:matmul(d:full_tensor():t()):tanh() * v):sum():backward()
         near(d.grad:to_local(), mine(w.grad, dim))
         near(d.grad:full_tensor(), w.grad)
         -- The weight is split by rows, so each rank computes some of the results.
         d:to_local().grad = nil
         local rows = d:redistribute {placements = {Shard(1)}}:to_local()
         local y = T.DTensor.from_local(x:matmul(rows:t()), mesh, {Shard(2)})
         ;(y:full_tensor():tanh() * v):sum():backward()
         near(d.grad:full_tensor(), w.grad)
         -- The weight is split by columns, so each rank computes partial sums of all results.
         d:to_local().grad = nil
         local columns = d:redistribute {placements = {Shard(2)}}:to_local()
         y = T.DTensor.from_local(mine(x, 2):matmul(columns:t()), mesh, {T.Partial()})
         ;(y:full_tensor():tanh() * v):sum():backward()
         near(d.grad:full_tensor(), w.grad)
      end
   ]==]))

   it("refuses arguments that do not fit", case(2, [==[
      local T, mesh = dist.tensor, dist.init_device_mesh("cpu", {2})
      local w = torch.ones(4, 5)
      local d, split = T.distribute_tensor(w, mesh, Shard(1)), T.distribute_tensor
      check(true, d.placements[1]:is_shard(1) and not d.placements[1]:is_replicate())
      refused("distribute_tensor: dimension 2, of size 5, cannot be split over 2 ranks", split, w, mesh,
         {Shard(2)})
      refused("placements[1]: expected a dimension of a tensor that has 2, got 3", split, w, mesh,
         {Shard(3)})
      refused("placements: expected a list of 1 placements", split, w, mesh, {Shard(1), Shard(2)})
      refused("placements[1]: expected Shard(dim), Replicate() or Partial(), got 3", split, w, mesh, {3})
      refused("placements[1]: expected Shard(dim) or Replicate(), got ", split, w, mesh, {T.Partial()})
      refused("device_mesh: expected a mesh (see init_device_mesh)", split, w, d, {Shard(1)})
      refused("redistribute: placements[1]: expected Shard(dim) or Replicate(), got Partial(sum)",
         d.redistribute, d, nil, {T.Partial()})
      refused("redistribute: device_mesh: expected the tensor's own", d.redistribute, d,
         dist.init_device_mesh("cpu", {2}), {Shard(1)})
      refused("DTensor: there is no __add: it has no operators; compute with to_local()",
         function() return d + 1 end)
      refused('DTensor: there is no "matmul"', function() return d:matmul(d) end)
      refused("DTensor.size: dim: expected 1 to 2, got 3", d.size, d, 3)
      refused('reduce_op: expected "sum", got "max"', T.Partial, "max")
   ]==]))
end)
