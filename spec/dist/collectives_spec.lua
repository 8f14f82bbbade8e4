-- Tests collectives. The expected values are sums computed by hand. Most data of rank r are r + 1 or multiples of it.

local ranks = require "spec.dist.ranks"

describe("all_reduce", function()
   it("gives the sum, mean, product, least and greatest to all", ranks:case(3, [[
      local function reduced(op, dtype)
         local t = torch.tensor({1, 2, 3}, {dtype = dtype or "float32"}) * (rank + 1)
         dist.all_reduce(t, op)
         return t
      end
      check({6.0, 12.0, 18.0}, reduced "sum")
      check({2.0, 4.0, 6.0}, reduced "avg")
      check({6.0, 48.0, 162.0}, reduced "product")
      check({1.0, 2.0, 3.0}, reduced "min")
      check({3.0, 6.0, 9.0}, reduced "max")
      check({6.0, 12.0, 18.0}, reduced(dist.ReduceOp.SUM))
      check({0, 0, 0}, reduced("band", "int32"))  -- 1 & 2 & 3, 2 & 4 & 6, 3 & 6 & 9
      check({3, 6, 15}, reduced("bor", "int64"))
      check({0, 0, 12}, reduced("bxor", "uint8"))
   ]]))

   it("takes every dtype, and sums float16 and bfloat16 in float32", ranks:case(3, [[
      for _, dtype in ipairs {"float64", "int8", "int16", "int32", "int64", "uint8"} do
         local t = torch.full({5}, rank + 1, {dtype = dtype})
         dist.all_reduce(t)
         check({6, 6, 6, 6, 6}, t:long(), dtype)
      end
      local b = torch.tensor {rank == 1, false, true}
      dist.all_reduce(b)
      check({true, false, true}, b)
      -- In float16, 2048 + 1 is rounded to 2048, but the sum 2048 + 1 + 1 is exact. In bfloat16, the same holds for
      -- 256.
      for _, row in ipairs {{"float16", 2048}, {"bfloat16", 256}} do
         local dtype, big = row[1], row[2]
         local t = torch.tensor({rank == 0 and big or 1}, {dtype = dtype})
         dist.all_reduce(t)
         check({big + 2.0}, t:float(), dtype)
      end
      local i = torch.tensor({100}, {dtype = "int8"})
      dist.all_reduce(i)
      check({300 - 256}, i)
   ]]))

   it("lets NaN win min and max", ranks:case(3, [[
      for _, op in ipairs {"min", "max"} do
         local t = torch.tensor {rank == 1 and 0 / 0 or 1.0, 2.0}
         dist.all_reduce(t, op)
         assert(t[1]:item() ~= t[1]:item() and t[2]:item() == 2)
      end
   ]]))

   it("has the same bits on all ranks, for every size and number of ranks", ranks:case({2, 3, 5}, [[
      for _, numel in ipairs {0, 1, 7, 4096, 65536, 65537, 300001, 1200001} do
         torch.manual_seed(rank + 1)
         local t = torch.randn(numel)
         local whole = torch.zeros(numel, {dtype = "float64"})
         for r = 1, size do
            torch.manual_seed(r)
            whole = whole + torch.randn(numel):double()
         end
         dist.all_reduce(t)
         if numel > 0 then
            assert((t:double() - whole):abs():max():item() < 1e-5)
         end
         local least, most = t:clone(), t:clone()
         dist.all_reduce(least, "min")
         dist.all_reduce(most, "max")
         assert(least:equal(t) and most:equal(t))
      end
   ]]))

   it("works on views of any strides and leaves the rest alone", ranks:case(2, [[
      local whole = torch.zeros(3, 4)
      whole:select(2, 2):fill_(rank + 1)
      dist.all_reduce(whole:select(2, 2))
      check({{0.0, 3.0, 0.0, 0.0}, {0.0, 3.0, 0.0, 0.0}, {0.0, 3.0, 0.0, 0.0}}, whole)
      local m = torch.tensor {{1.0, 2}, {3, 4}} * (rank + 1)
      dist.all_reduce(m:t())
      check({{3.0, 6.0}, {9.0, 12.0}}, m)
   ]]))

   it("refuses tensors that do not fit, by name", ranks:case(2, [[
      refused("all_reduce: op: expected floating-point tensors for 'avg', got int64",
         dist.all_reduce, torch.tensor {1}, "avg")
      refused("expected integer or bool tensors for 'band', got float32",
         dist.all_reduce, torch.ones(1), "band")
      refused("expected sum, avg, product, min, max, band, bor or bxor",
         dist.all_reduce, torch.ones(1), "median")
      refused("all_reduce: unknown option asynch", dist.all_reduce, torch.ones(1),
         {asynch = true})
      refused("broadcast: src: expected a rank of the group (0, 1), got 2",
         dist.broadcast, torch.ones(1), 2)
      refused("overlaps itself", dist.all_reduce, torch.ones(1):expand(3))
      refused("new_group: ranks: expected at least one rank", dist.new_group, {})
      refused("scatter_object_list: scatter_object_input_list: expected a list of 2 objects",
         dist.scatter_object_list, {}, {1}, rank)
      refused("expected 2 tensors here, got 1", dist.all_gather, {torch.ones(1)}, torch.ones(1))
      refused("expected tensors of one dtype", dist.all_gather,
         {torch.ones(1), torch.ones(1):long()}, torch.ones(1))
      dist.barrier() -- the group still works after the error
   ]]))
end)

describe("collectives without arithmetic", function()
   it("broadcast gives the root's to all, of any size", ranks:case(3, [[
      for _, numel in ipairs {0, 1, 1000, 200000} do
         local t = torch.full({numel}, rank + 0.5)
         dist.broadcast(t, 2)
         assert(t:equal(torch.full({numel}, 2.5)), numel)
      end
   ]]))

   it("reduce changes the root's alone", ranks:case(3, [[
      local t = torch.tensor {rank + 1.0}
      dist.reduce(t, 1)
      check({rank == 1 and 6.0 or rank + 1.0}, t)
   ]]))

   it("all_gather, gather and scatter take parts of different sizes", ranks:case(3, [[
      local mine = torch.full({rank * 50000 + 1}, rank + 0.0)
      local all = {}
      for r = 0, 2 do all[r + 1] = torch.empty(r * 50000 + 1) end
      dist.all_gather(all, mine)
      for r = 0, 2 do assert(all[r + 1]:equal(torch.full({r * 50000 + 1}, r + 0.0))) end
      local root = {}
      if rank == 1 then for r = 0, 2 do root[r + 1] = torch.empty(r * 50000 + 1) end end
      dist.gather(mine, rank == 1 and root or nil, 1)
      for r = 0, #root - 1 do assert(root[r + 1]:equal(torch.full({r * 50000 + 1}, r + 0.0))) end
      local out = torch.zeros(rank * 50000 + 1)
      dist.scatter(out, rank == 1 and all or nil, 1)
      assert(out:equal(mine))
   ]]))

   it("include all_gather_into_tensor and reduce_scatter_tensor, each the gradient of the other", ranks:case(3, [[
      local all = torch.empty(6, 2)
      dist.all_gather_into_tensor(all, torch.full({2, 2}, rank + 0.0))
      check({0.0, 0.0, 1.0, 1.0, 2.0, 2.0}, all:select(2, 1))
      local stacked = torch.empty(3, 2)
      dist.all_gather_into_tensor(stacked, torch.full({2}, rank + 0.0))
      check({{0.0, 0.0}, {1.0, 1.0}, {2.0, 2.0}}, stacked)
      local part = torch.empty(2, 2)
      dist.reduce_scatter_tensor(part, all * (rank + 1))
      check({{rank * 6.0, rank * 6.0}, {rank * 6.0, rank * 6.0}}, part)
      local one = torch.empty(100000)
      dist.reduce_scatter(one, {torch.ones(100000), torch.ones(100000) * 2, torch.ones(100000) * 3})
      assert(one:equal(torch.full({100000}, 3.0 * (rank + 1))))
   ]]))

   it("gather_single and all_gather_coalesced fill the given tensors", ranks:case(3, [[
      local whole = rank == 1 and torch.zeros(6, 2) or nil
      dist.gather_single(torch.full({2, 2}, rank + 0.0), whole, 1)
      if whole then check({0.0, 0.0, 1.0, 1.0, 2.0, 2.0}, whole:select(2, 1)) end
      if rank == 1 then
         refused("gather_single: output: expected a first dimension that 3 divides",
            dist.gather_single, torch.ones(2), torch.ones(7), 1)
      end
      local lists = {{}, {}}
      for r = 1, 3 do lists[1][r], lists[2][r] = torch.zeros(2), torch.zeros(1, 2) end
      dist.all_gather_coalesced(lists, {torch.full({2}, rank + 1.0), torch.full({1, 2}, rank + 5.0)})
      for r = 0, 2 do
         check({r + 1.0, r + 1.0}, lists[1][r + 1])
         check({{r + 5.0, r + 5.0}}, lists[2][r + 1])
      end
      refused("output_tensor_lists[2]: expected a list of 3 tensors", dist.all_gather_coalesced,
         {lists[1]}, {torch.ones(2), torch.ones(2)})
   ]]))

   it("all_to_all exchanges parts, uneven ones too", ranks:case(3, [[
      local out = torch.empty(3)
      dist.all_to_all_single(out, torch.tensor {10.0, 11, 12} + rank * 100)
      check({10.0 + rank, 110.0 + rank, 210.0 + rank}, out)
      -- In this test, rank r sends r + s + 1 rows to rank s.
      local input, sizes = {}, {}
      for s = 0, 2 do
         sizes[s + 1] = rank + s + 1
         for _ = 1, rank + s + 1 do input[#input + 1] = rank * 10.0 + s end
      end
      local total = sizes[1] + sizes[2] + sizes[3]
      local got = torch.empty(total)
      dist.all_to_all_single(got, torch.tensor(input), sizes, sizes)
      local at = 1
      for s = 0, 2 do
         for _ = 1, s + rank + 1 do
            assert(got[at]:item() == s * 10.0 + rank)
            at = at + 1
         end
      end
      local big, lists = {}, {}
      for s = 0, 2 do
         big[s + 1] = torch.full({70000 * (s + 1)}, rank * 10.0 + s)
         lists[s + 1] = torch.empty(70000 * (rank + 1))
      end
      dist.all_to_all(lists, big)
      for s = 0, 2 do
         assert(lists[s + 1]:equal(torch.full({70000 * (rank + 1)}, s * 10.0 + rank)))
      end
      refused("input_split_sizes: the sum is 2, but there are 3 rows", dist.all_to_all_single,
         torch.empty(3), torch.ones(3), {input_split_sizes = {1, 1, 0}})
   ]]))

   it("moves plain tables", ranks:case(2, [[
      local all = {}
      dist.all_gather_object(all, {rank = rank, name = ("x"):rep(rank * 10), list = {1, 2.5, true}})
      check({1, 2.5, true}, all[2].list)
      check("xxxxxxxxxx", all[2].name)
      check(0, all[1].rank)
      local list = rank == 1 and {"a", {b = 1}} or {false, false}
      dist.broadcast_object_list(list, 1)
      check("a", list[1]); check(1, list[2].b)
      local gathered = rank == 0 and {} or nil
      dist.gather_object("rank " .. rank, gathered)
      if rank == 0 then check({"rank 0", "rank 1"}, gathered) end
      local mine = {}
      dist.scatter_object_list(mine, rank == 0 and {"for 0", "for 1"} or nil, 0)
      check("for " .. rank, mine[1])
      if rank == 0 then dist.send_object_list({1, {2}}, 1) else
         local got = {}
         check(0, dist.recv_object_list(got))
         check({1, {2}}, got)
      end
      refused("a tensor cannot be part of an object", dist.all_gather_object, {}, torch.ones(1))
   ]]))
end)

describe("async_op", function()
   it("gives a Work, whose calls are made in their order", ranks:case(2, [[
      local works, tensors = {}, {}
      for i = 1, 20 do
         tensors[i] = torch.full({i * 1000}, i * (rank + 1.0))
         works[i] = dist.all_reduce(tensors[i], {async_op = true})
      end
      local last = torch.ones(1)
      dist.all_reduce(last) -- the loop above has called 20 collectives without waiting for them
      for i = 1, 20 do
         assert(works[i]:wait())
         assert(works[i]:is_completed() and works[i]:is_success())
         check(nil, works[i]:exception())
         assert(tensors[i]:equal(torch.full({i * 1000}, i * 3.0)))
      end
      check({2.0}, last)
      check(nil, dist.all_reduce(last))
   ]]))

   it("keeps the tensors of a Work that is not waited for", ranks:case(2, [[
      for _ = 1, 50 do dist.all_reduce(torch.ones(5000), {async_op = true}) end
      collectgarbage()
      dist.barrier()
   ]]))
end)

describe("groups", function()
   it("of some ranks work beside the world, by ranks of the world", ranks:case(4, [[
      local even, odd = dist.new_group {0, 2}, dist.new_group({3, 1})
      local mine, other = even, odd
      if rank % 2 == 1 then mine, other = odd, even end
      check(dist.GroupMember.NON_GROUP_MEMBER, other)
      for _, ask in ipairs {"get_global_rank", "get_group_rank"} do
         refused(ask .. ": this rank is not of the group", dist[ask], other, 0)
      end
      check(rank // 2, dist.get_rank(mine)); check(2, dist.get_world_size(mine))
      check(-1, dist.get_rank(other))
      check({rank % 2, rank % 2 + 2}, dist.get_process_group_ranks(mine))
      check(rank % 2 + 2, dist.get_global_rank(mine, 1))
      local t = torch.tensor {rank + 0.0}
      dist.all_reduce(t, {group = mine})
      check({rank % 2 == 0 and 2.0 or 4.0}, t)
      dist.all_reduce(t, {group = other}) -- nothing
      dist.broadcast(t, rank % 2 + 2, {group = mine})
      refused("expected a rank of the group (", dist.broadcast, t, (rank + 1) % 2, mine)
      refused("new_subgroups: group: expected the default group, or none", dist.new_subgroups, 2, {group = mine})
      local own, all = dist.new_subgroups(2, {timeout = 60})
      check(2, #all)
      dist.all_reduce(t, {group = own})
      check({6.0}, t)
      refused("ranks_per_subgroup_list[2]: rank 1 is in the group 1 as well",
         dist.new_subgroups_by_enumeration, {{0, 1}, {1}})
      local some, two = dist.new_subgroups_by_enumeration {{3, 0}, {1}}
      check(2, #two)
      check(rank == 2 and dist.GroupMember.NON_GROUP_MEMBER or two[rank == 1 and 2 or 1], some)
      check(({{0, 3}, {1}, {}, {0, 3}})[rank + 1], dist.get_process_group_ranks(some))
      -- the call counts the groups of this rank: the world, its half, `own` and `some`; rank 2 is not in one of them
      check(rank == 2 and 3 or 4, dist.get_pg_count())
      dist.destroy_process_group(some)
      check("off", dist.get_debug_level())
      dist.destroy_process_group(own)
      refused("was destroyed", dist.all_reduce, t, {group = own})
      dist.barrier()
      check(BACKEND, dist.get_backend())
      dist.destroy_process_group()
      check(false, dist.is_initialized())
      refused("all_reduce: there is no process group", dist.all_reduce, t)
      -- initialises the process group a second time
      dist.init_process_group {backend = BACKEND}
      dist.barrier()
   ]]))

   it("are parts of a group, in the order that is given", ranks:case(4, [[
      local a = dist.split_group(nil, {{2, 0, 3}, {1}})
      check(rank == 1 and {1} or {2, 0, 3}, dist.get_process_group_ranks(a))
      check(({1, 0, 0, 2})[rank + 1], dist.get_rank(a))
      local t = torch.tensor {rank + 0.0}
      dist.broadcast(t, 3 - (rank == 1 and 2 or 0), {group = a})
      check({rank == 1 and 1.0 or 3.0}, t)
      -- Splits a group that contains only some of the ranks. Ranks are numbered within the group, and ranks outside the
      -- group need not call.
      if rank ~= 1 then
         local b = dist.split_group(a, {{0, 2}})
         if rank == 0 then
            check(dist.GroupMember.NON_GROUP_MEMBER, b)
         else
            check({2, 3}, dist.get_process_group_ranks(b))
            t = torch.tensor {rank + 0.0}
            dist.all_reduce(t, {group = b})
            check({5.0}, t)
         end
      end
      check(rank < 2 and 2 or 3, dist.get_pg_count())
      refused("split_ranks[2]: rank 1 is in the group 1 as well", dist.split_group, nil, {{0, 1}, {1}})
      refused("split_ranks[1]: expected ranks of the group, 0 to 3, got 4", dist.split_group, nil,
         {{0, 4}})
      refused("split_ranks: expected lists of ranks", dist.split_group, nil, {})
      refused("split_ranks[1]: expected a list of ranks", dist.split_group, nil, {{}})
      refused("parent_pg: this rank is not of the group", dist.split_group,
         dist.GroupMember.NON_GROUP_MEMBER, {{0}})
      refused('backend: expected "shm"', dist.split_group, nil, {{0}}, {backend = "glow"})
   ]]))

   it("may get another timeout", function()
      ranks.ok(2, [[
         local group, store = dist.new_group(), dist.group.WORLD.store
         dist.set_timeout(0.25, group)
         if rank == 0 then
            refused("rank 1 did not arrive within 0.25 s", dist.barrier, group)
            store:set("late", "")
         else
            store:wait "late"
         end
         refused("timeout: expected seconds, got 0", dist.set_timeout, 0)
         refused("timeout: expected seconds, got nil", dist.set_timeout)
         refused("this rank is not of the group", dist.set_timeout, 1,
            dist.GroupMember.NON_GROUP_MEMBER)
         check(true, dist.is_backend_available "shm")
         check(true, dist.is_backend_available "gloo")
         check(true, dist.is_backend_available "record")
         check(BACKEND == "mpi", dist.is_mpi_available())
         if not torch.cuda.is_available() then check(false, dist.is_nccl_available()) end
         refused("backend: expected a string, got nil", dist.is_backend_available)
         check(true, dist.is_gloo_available())
         check(BACKEND == "shm", dist.is_torchelastic_launched())
      ]], {breaks = true})
   end)
end)

describe("torch.distributed.nn", function()
   -- The expected gradients were computed by hand. Each rank multiplies its results by weights of its own, so the
   -- gradient of data that were sent to a rank contains the weights of that rank.
   it("lets gradients through lists and to one rank", ranks:case(3, [[
      local nn = dist.nn
      local function leaf(...) return torch.tensor({...}, {requires_grad = true}) end
      local x = leaf(1.0 + rank, 2.0)
      local y = nn.reduce(x, 1)
      if rank == 1 then check({6.0, 6.0}, y) end
      ;(y * (rank == 1 and torch.tensor {5.0, 7} or torch.zeros(2))):sum():backward()
      check({5.0, 7.0}, x.grad)
      x.grad = nil
      ;(nn.reduce(x, 0, {op = "avg"}) * 6):sum():backward()
      check({2.0, 2.0}, x.grad)
      x.grad = nil
      local list = nn.gather(x, 2)
      check(3, #list)
      for r = 0, 2 do check(rank == 2 and {1.0 + r, 2.0} or {0.0, 0.0}, list[r + 1]) end
      local sum = 0
      for r = 0, 2 do sum = sum + (list[r + 1] * torch.tensor {r + 1.0, 10}):sum() end
      sum:backward()
      check({rank + 1.0, 10.0}, x.grad)
      local parts = {leaf(1.0 + rank), leaf(2.0 + rank), leaf(3.0 + rank)}
      local part = nn.scatter(parts, 1)
      check({2.0 + rank}, part)
      ;(part * (rank + 4)):sum():backward()
      for r = 0, 2 do check(rank == 1 and {r + 4.0} or {0.0}, parts[r + 1].grad) end
      -- In this test, rank r sends the number s to rank s, r + 1 times.
      local inputs, outputs = {}, {}
      for s = 0, 2 do
         inputs[s + 1] = torch.full({rank + 1}, s + 0.0):requires_grad_()
         outputs[s + 1] = torch.empty(s + 1)
      end
      local got = nn.all_to_all(outputs, inputs)
      sum = 0
      for r = 0, 2 do
         check(r + 1, got[r + 1]:numel())
         check(rank * (r + 1.0), got[r + 1]:sum():item())
         sum = sum + got[r + 1]:sum() * (10 * rank + r)
      end
      sum:backward()
      for s = 0, 2 do check(10.0 * s + rank, inputs[s + 1].grad:mean():item()) end
      refused("distributed.nn.scatter: tensors: expected a list of 3 tensors", nn.scatter, {x})
      refused("distributed.nn.reduce: op: expected \"sum\" or \"avg\", got \"max\"", nn.reduce, x, 0,
         {op = "max"})
   ]]))

   it("lets gradients through", ranks:case(2, [[
      local nn = dist.nn
      local x = torch.tensor({1.0, 2, 3, 4}, {requires_grad = true})
      local weight = torch.tensor {1.0, 10, 100, 1000} * (rank + 1)
      ;(nn.all_reduce(x) * weight):sum():backward()
      check({3.0, 30.0, 300.0, 3000.0}, x.grad)
      x.grad = nil
      local gathered = nn.all_gather(x)
      check({8}, gathered.shape)
      ;(gathered * torch.arange(1.0, 9) * (rank + 1)):sum():backward()
      check(rank == 0 and {3.0, 6.0, 9.0, 12.0} or {15.0, 18.0, 21.0, 24.0}, x.grad)
      x.grad = nil
      local part = nn.reduce_scatter(x * (rank + 1))
      check(rank == 0 and {3.0, 6.0} or {9.0, 12.0}, part)
      ;(part * (rank == 0 and 1 or 5)):sum():backward()
      check(rank == 0 and {1.0, 1.0, 5.0, 5.0} or {2.0, 2.0, 10.0, 10.0}, x.grad)
      x.grad = nil
      local got = nn.all_to_all_single(x)
      ;(got * torch.tensor {1.0, 2, 3, 4}):sum():backward()
      check(rank == 0 and {1.0, 2.0, 1.0, 2.0} or {3.0, 4.0, 3.0, 4.0}, x.grad)
      x.grad = nil
      nn.broadcast(x, 1):sum():backward()
      check(rank == 1 and {2.0, 2.0, 2.0, 2.0} or {0.0, 0.0, 0.0, 0.0}, x.grad)
   ]]))
end)

describe("tensors of the simulated device", function()
   it("go through the host in the order of their stream", ranks:case(2, [[
      local x = torch.ones(3, {device = "sim"})
      for _ = 1, 10 do
         x = x * 2
         -- Both ranks have equal values, so that all_reduce doubles x once more.
         dist.all_reduce(x)
      end
      check("sim:0", x.device)
      check({4.0 ^ 10, 4.0 ^ 10, 4.0 ^ 10}, x:cpu())
      local all = torch.empty({2, 3}, {device = "sim"})
      local work = dist.all_gather_into_tensor(all, x * (rank + 1), {async_op = true})
      work:wait()
      check({4.0 ^ 10, 2 * 4.0 ^ 10}, (all:select(2, 1)):cpu())
      local view = torch.zeros({2, 2}, {device = "sim"}):t()
      view:fill_(rank + 1)
      dist.all_reduce(view)
      check({{3.0, 3.0}, {3.0, 3.0}}, view:cpu())
   ]]))
end)
