-- Tests sending tensors from one rank to another.

local ranks = require "spec.dist.ranks"

describe("send and recv", function()
   it("are refused in a group of one rank, which would wait forever", ranks:case(1, [[
      refused("recv: the group has no other rank that could send a message", dist.recv, torch.ones(2))
      refused("recv: the group has no other rank that could send a message", dist.irecv, torch.ones(2))
   ]]))

   it("move tensors of any size, in order", ranks:case(3, [[
      local next_rank, previous = (rank + 1) % size, (rank - 1) % size
      for _, numel in ipairs {0, 1, 5000, 300000} do
         local t = torch.full({numel}, rank + 0.0)
         if rank == 0 then dist.send(t, next_rank) end
         local got = torch.empty(numel)
         check(previous, dist.recv(got, previous))
         assert(got:equal(torch.full({numel}, previous + 0.0)))
         if rank > 0 then dist.send(t, next_rank) end
      end
   ]]))

   it("match by tag, in any order", ranks:case(2, [[
      if rank == 0 then
         for tag = 1, 3 do dist.send(torch.tensor {tag * 10}, 1, {tag = tag}) end
         dist.send(torch.full({200000}, 40.0), 1, {tag = 4})
         dist.send(torch.tensor {11}, 1, {tag = 1})
      else
         local t, big = torch.tensor {0}, torch.empty(200000)
         local late = dist.irecv(big, 0, {tag = 4})
         for _, tag in ipairs {3, 1, 2} do
            dist.recv(t, 0, {tag = tag})
            check({tag * 10}, t)
         end
         late:wait()
         assert(big:equal(torch.full({200000}, 40.0)))
         dist.recv(t, 0, {tag = 1})
         check({11}, t)
      end
   ]]))

   it("receive from any rank", ranks:case(3, [[
      if rank == 0 then
         local seen = {}
         for _ = 1, 2 do
            local t = torch.tensor {0}
            local from = dist.recv(t)
            check({from * 7}, t)
            seen[from] = true
         end
         assert(seen[1] and seen[2])
      else
         dist.send(torch.tensor {rank * 7}, 0)
      end
   ]]))

   it("do not block each other if both ranks send first", ranks:case(2, [[
      local mine, other = torch.full({500000}, rank + 1.0), torch.empty(500000)
      local works = dist.batch_isend_irecv {
         dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank),
      }
      local sum = torch.ones(1000)
      dist.all_reduce(sum) -- meanwhile
      for _, work in ipairs(works) do work:wait() end
      assert(other:equal(torch.full({500000}, 2.0 - rank)))
      check(2.0, sum[7]:item())
      refused("op: expected distributed.isend or distributed.irecv",
         dist.P2POp, dist.send, mine, 0)
   ]]))

   it("are errors when the sizes differ", ranks:case(2, [[
      if rank == 0 then
         dist.send(torch.ones(3), 1)
      else
         refused("recv from rank 0 of float32 [2] at ", dist.recv, torch.ones(2), 0)
         refused("rank 0 has sent 12 bytes, expected were 8", dist.recv, torch.ones(2), 0)
         refused("a rank sends no message to itself", dist.send, torch.ones(2), 1)
      end
   ]]))
end)
