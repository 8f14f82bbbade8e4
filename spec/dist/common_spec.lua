-- Tests the memory that ranks share, in which DDP stores its buckets. The reference values are closed forms, and the
-- results of all_reduce on ordinary tensors, which uses another algorithm.

local ranks = require "spec.dist.ranks"

local run <const>, case <const> = ranks:run_after "common"

describe("an all_reduce in common memory", function()
   it("gives the same bits as one of plain tensors, for all operations and kinds of numbers", case({2, 3}, [==[
      for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32"} do
         local a = common(2 * n, dtype):narrow(1, 1, n)
         for _, op in ipairs {"sum", "avg", "product", "min", "max"} do
            if op ~= "avg" or not dtype:find "int" then
               local b = random(dtype)
               a:copy_(b)
               dist.all_reduce(a, op)
               dist.all_reduce(b, op)
               assert(a:equal(b), dtype .. " " .. op)
            end
         end
      end
   ]==]))

   it("takes any part of it, and leaves the rest", case(2, [==[
      local a = common(3 * n)
      check(0.0, a:abs():max():item())
      for _, at in ipairs {1, 2, 17, 4097, 2 * n + 1} do
         a:fill_(rank + 1)
         dist.all_reduce(a:narrow(1, at, n))
         check(n, a:narrow(1, at, n):eq(3):sum():item(), "reduced")
         check(2 * n, a:eq(rank + 1):sum():item(), "left")
      end
      a:fill_(rank + 1) -- this tensor is so small that the other algorithm sums it
      dist.all_reduce(a:narrow(1, 5, 7))
      check({rank + 1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, rank + 1.0}, a:narrow(1, 4, 9))
   ]==]))

   it("writes nothing elsewhere", case(2, [==[
      local a, b = common(1 << 18):fill_(1), torch.ones(1 << 18)
      dist.all_reduce(a)
      assert(slots() < 256, slots() .. " KB")
      dist.all_reduce(b)
      assert(slots() >= 1024, slots() .. " KB")
   ]==]))

   it("may meet a plain tensor of another rank, or another part", case(2, [==[
      local a, b = common(2 * n), torch.zeros(n)
      for _, mine in ipairs {rank == 0 and a:narrow(1, 1, n) or b, a:narrow(1, 1 + rank * 100, n),
         a:view(2, n):t()} do
         mine:fill_(rank + 1)
         dist.all_reduce(mine:contiguous():view(-1):narrow(1, 1, n))
         dist.all_reduce(mine)
         local expected = mine:numel() == n and 6 or 3
         check(mine:numel(), mine:eq(expected):sum():item())
      end
   ]==]))

   it("is one of several that are under way", case(2, [==[
      local list, works = {}, {}
      for i = 1, 4 do
         list[i] = (i % 2 == 0 and common() or torch.zeros(n)):fill_(i * (rank + 1))
      end
      for round = 1, 3 do
         for i, t in ipairs(list) do works[i] = dist.all_reduce(t, {async_op = true}) end
         for _, work in ipairs(works) do work:wait() end
      end
      for i, t in ipairs(list) do check(n, t:eq(12 * i):sum():item()) end
   ]==]))

   it("fails if another rank makes another call, or has ended", function()
      run(2, [==[
         local a = common()
         if rank == 0 then
            refused("rank 1 barrier number", dist.all_reduce, a)
         else
            refused("rank 0 all_reduce number", dist.barrier)
         end
      ]==])
      local output = run(2, [==[
         local a = common():fill_(3)
         dist.all_reduce(a)
         if rank == 1 then os.exit(0) end
         refused("rank 1 has ended and is missing in all_reduce number", dist.all_reduce, a)
         check(6.0, a[n])
         print "told"
      ]==])
      assert.equal(1, select(2, output:gsub("told", "")), output)
   end)
end)

describe("common memory", function()
   it("is mapped without an open file, until its last tensor is freed", case(2, [==[
      local before, open = mappings(), files()
      local a = common()
      check(before + 1, mappings())
      check(open, files())
      local view = a:narrow(1, n, 1)
      view:fill_(7)
      a:release()
      check(before + 1, mappings())
      check(7.0, view:item())
      view:release()
      check(before, mappings())
   ]==]))

   it("may be dropped by one rank earlier than by another", case(2, [==[
      local a, b = common(), common()
      if rank == 0 then a:release() end
      local mine = rank == 0 and b or a
      for _, t in ipairs {mine, b} do
         t:fill_(rank + 1)
         dist.all_reduce(t)
         check(n, t:eq(3):sum():item())
      end
   ]==]))

   it("outlives its group, and is plain memory for others", case(2, [==[
      local a = common():fill_(rank + 1)
      local group = dist.new_group()
      dist.all_reduce(a, {group = group})
      check(3.0, a[1])
      dist.destroy_process_group()
      check(3.0, a[n])
      dist.init_process_group {backend = BACKEND}
      raw = dist.group.WORLD.raw
      local b = common():fill_(1)
      a:fill_(rank + 1)
      dist.all_reduce(a)
      dist.all_reduce(b)
      check({3.0, 3.0, 2.0}, {a[1]:item(), a[n]:item(), b[n]:item()})
   ]==]))

   it("is not used by any rank if ranks ask for different sizes, nor for few bytes", case(2, [==[
      check(nil, common(n + 5000 * rank))
      check(nil, common(1000))
      check(nil, common(1 << 50))
      local a = common():fill_(1)
      dist.all_reduce(a)
      check(2.0, a[1])
      refused("bad argument", raw.common, raw, a, "x")
      refused("common: ", raw.common, raw, 3, 5)
      dist.destroy_process_group()
      refused("common: the process group was destroyed", common)
   ]==]))

   it("holds DDP's buckets, also after they were rebuilt", case(2, [==[
      local nn = torch.nn
      torch.manual_seed(1)
      local function build() return nn.Sequential(nn.Linear(300, 300), nn.Tanh(),
         nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 2)) end
      local single = build()
      local model = nn.parallel.DistributedDataParallel(build(), {bucket_cap_mb = 0.3})
      for i, p in ipairs(single:parameters()) do
         torch.no_grad(function() p:copy_(model.module:parameters()[i]) end)
      end
      local x = torch.randn(8, 300)
      dist.broadcast(x, 0);
      (single(x) ^ 2):mean():backward()
      local before = #model.buckets
      for _ = 1, 3 do
         model:zero_grad();
         (model(x:narrow(1, 4 * rank + 1, 4)) ^ 2):mean():backward()
         for i, p in ipairs(model:parameters()) do
            near(p.grad, single:parameters()[i].grad, 1e-6)
            local most = p.grad:clone()
            dist.all_reduce(most, "max")
            assert(most:equal(p.grad))
         end
      end
      local shared = {}
      for line in io.lines "/proc/self/maps" do
         local from, to = line:match "^(%x+)%-(%x+) .*/memfd:tlua"
         if from then shared[#shared + 1] = {tonumber(from, 16), tonumber(to, 16)} end
      end
      local count = 0
      for _, bucket in ipairs(model.buckets) do
         local at = bucket:buffer():data_ptr()
         for _, range in ipairs(shared) do
            if at >= range[1] and at < range[2] then count = count + 1 end
         end
      end
      assert(count >= 2 and count <= before, "buckets in common memory: " .. count)
   ]==]))
end)
