-- Tests device meshes, and the optimizer that shards its state over ranks (ZeroRedundancyOptimizer).

local ranks = require "spec.dist.ranks"

describe("init_device_mesh", function()
   it("arranges ranks, the last dimension fastest, with a group for each row", ranks:case(8, [==[
      local mesh = dist.init_device_mesh("cpu", {2, 2, 2}, {mesh_dim_names = {"pp", "dp", "tp"}})
      check({rank // 4, rank // 2 % 2, rank % 2}, mesh:get_coordinate())
      check(3, mesh.ndim)
      -- as in PyTorch, the module device_mesh also has init_device_mesh
      check(dist.init_device_mesh, dist.device_mesh.init_device_mesh)
      check(8, mesh:size())
      check(2, mesh:size("dp"))
      check(rank // 2 % 2, mesh:get_local_rank("dp"))
      check(rank % 2, mesh["tp"]:get_local_rank())
      local sum = torch.tensor {rank}
      dist.all_reduce(sum, {group = mesh:get_group("dp")})
      check({rank // 4 * 8 + rank % 2 * 2 + 2}, sum)
      check({rank % 4, rank % 4 + 4}, dist.get_process_group_ranks(mesh.pp:get_group()))
      local two = mesh[{"pp", "tp"}]
      check({2, 2}, two.shape)
      check({"pp", "tp"}, two.mesh_dim_names)
      check({rank // 4, rank % 2}, two:get_coordinate())
      check("DeviceMesh(cpu, (2), tp)", tostring(mesh.tp))
   ]==]))

   it("refuses sizes that do not fit, on every rank", ranks:case(2, [==[
      local init = dist.init_device_mesh
      refused("mesh_shape: (3) has 3 ranks, but the world has 2", init, "cpu", {3})
      refused("mesh_shape[1]: expected at least 1, got 0", init, "cpu", {0, 2})
      refused("mesh_dim_names: expected 1 names, one for each dimension, got 2", init, "cpu",
         {2}, {mesh_dim_names = {"a", "b"}})
      refused('"a" occurs twice', init, "cpu", {2, 1}, {mesh_dim_names = {"a", "a"}})
      refused("a word that is no field or method of a mesh", init, "cpu", {2},
         {mesh_dim_names = {"size"}})
      refused('device_type: expected "cpu", "sim" or "cuda", got "tpu"', init, "tpu", {2})
      refused(rank == 0 and "argument 2 is (1, 2) here, but (2, 1) on rank 1"
         or "argument 2 is (2, 1) here, but (1, 2) on rank 0", init, "cpu", {rank + 1, 2 - rank})
      local mesh = init("cpu", {2, 1}, {mesh_dim_names = {"a", "b"}})
      refused('the mesh has no dimension "c"; it has a, b', function() return mesh.c end)
      refused("expected one of the 2 dimensions", mesh.get_group, mesh)
      refused("expected names in the mesh's order", function() return mesh[{"b", "a"}] end)
      refused("a dimension from 1 to 2, got 3", mesh.size, mesh, 3)
      local plain = init("cpu", {2})
      refused("made without mesh_dim_names", function() return plain.dp end)
      check(rank, plain:get_local_rank())
   ]==]))
end)

describe("ZeroRedundancyOptimizer", function()
   local _, case <const> = ranks:run_after "zero"

   it("makes the steps of the optimizer alone, with its state split over the ranks", case({2, 4}, [==[
      local one, many = build(), build()
      local alone = torch.optim.AdamW(one:parameters(), {lr = 0.01})
      local zero = Zero(many:parameters(), {optimizer_class = torch.optim.AdamW, lr = 0.01})
      local schedules = {torch.optim.lr_scheduler.StepLR(alone, 2),
         torch.optim.lr_scheduler.StepLR(zero, 2)}
      for _ = 1, 5 do
         step(one, alone) step(many, zero)
         for _, s in ipairs(schedules) do s:step() end
         same(one, many)
      end
      local elements = torch.zeros(1, {dtype = "int64"})
      for _, p in ipairs(zero.optim.param_groups[1].params) do
         elements = elements + p:numel()
      end
      local most = elements:clone()
      dist.all_reduce(most, "max")
      dist.all_reduce(elements)
      check({130}, elements)
      assert(most:item() <= (size == 2 and 66 or 64))
   ]==]))

   it("saves and loads the state of the optimizer alone", case(2, [==[
      local one, many = build(), build()
      local alone = torch.optim.Adam(one:parameters(), {lr = 0.01})
      local zero = Zero({{params = {many[1].weight, many[1].bias}, lr = 0.02},
         {params = {many[3].weight, many[3].bias, many[5].weight, many[5].bias}}},
         {optimizer_class = torch.optim.Adam, lr = 0.01})
      alone = torch.optim.Adam({{params = {one[1].weight, one[1].bias}, lr = 0.02},
         {params = {one[3].weight, one[3].bias, one[5].weight, one[5].bias}}}, {lr = 0.01})
      for _ = 1, 3 do step(one, alone) step(many, zero) end
      same(one, many)
      refused("call consolidate_state_dict", zero.state_dict, zero)
      zero:consolidate_state_dict(1)
      if rank == 1 then
         local dict, expected = zero:state_dict(), alone:state_dict()
         check(#expected.state, #dict.state)
         check(0.02, dict.param_groups[1].lr)
         for i, state in ipairs(expected.state) do
            assert(state.exp_avg_sq:equal(dict.state[i].exp_avg_sq))
         end
      end
      local fresh = Zero({{params = {many[1].weight, many[1].bias}},
         {params = {many[3].weight, many[3].bias, many[5].weight, many[5].bias}}},
         {optimizer_class = torch.optim.Adam, lr = 0.5})
      fresh:load_state_dict(alone:state_dict())
      for _ = 1, 2 do step(one, alone) step(many, fresh) end
      same(one, many)
   ]==]))

   it("takes parameters later, and refuses those that do not fit", case(2, [==[
      local one, many = build(), build()
      local alone = torch.optim.SGD(one[1]:parameters(), {lr = 0.1})
      local zero = Zero(many[1]:parameters(), {optimizer_class = torch.optim.SGD, lr = 0.1})
      alone:add_param_group {params = one[3]:parameters(), lr = 0.2}
      zero:add_param_group {params = many[3]:parameters(), lr = 0.2}
      for _ = 1, 2 do step(one, alone) step(many, zero) end
      same(one, many)
      refused("optimizer_class: expected a class of torch.optim, got nil", Zero,
         one:parameters(), {lr = 1})
      refused("unknown option foo", Zero, one:parameters(),
         {optimizer_class = torch.optim.SGD, foo = 1})
      refused("parameter 1 is (2, " .. rank + 2 .. ") float32 here, but (2, " .. 3 - rank ..
         ") float32 on rank " .. 1 - rank, Zero, nn.Linear(rank + 2, 2):parameters(),
         {optimizer_class = torch.optim.SGD})
   ]==]))
end)
