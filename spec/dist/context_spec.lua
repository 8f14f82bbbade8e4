-- Tests sequences (context parallel) and experts (expert parallel) that are split over ranks. One process computes the
-- reference values.

local ranks = require "spec.dist.ranks"

describe("context_parallel", function()
   local _, case <const> = ranks:run_after "context"

   it("attends to the whole sequence, with its gradients", case({1, 2, 4}, [==[
      for _, causal in ipairs {true, false} do
         torch.manual_seed(1)
         local whole, grads = {}, torch.randn(2, 3, 16, 5)
         for i = 1, 3 do whole[i] = torch.randn(2, 3, 16, 5):requires_grad_() end
         local expected = F.scaled_dot_product_attention(whole[1], whole[2], whole[3],
            {is_causal = causal, scale = 0.7})
         ;(expected * grads):sum():backward()
         local got, mine
         x.context_parallel(mesh, {whole[1]:detach(), whole[2]:detach(), whole[3]:detach(),
            grads}, {3, 3, 3, 3}, function(q, k, v, g)
            check(16 // size, q:size(3))
            mine = {q:requires_grad_(), k:requires_grad_(), v:requires_grad_()}
            got = F.scaled_dot_product_attention(q, k, v, {is_causal = causal, scale = 0.7})
            ;(got * g):sum():backward()
         end)
         local all = x.context_parallel_unshard(mesh,
            {got, mine[1].grad, mine[2].grad, mine[3].grad}, {3, 3, 3, 3})
         near(all[1], expected)
         for i = 1, 3 do near(all[i + 1], whole[i].grad, 1e-5, "gradient " .. i) end
      end
      -- outside of the context-parallel block, attention must again work on whole sequences
      local q = torch.randn(1, 3, 2)
      near(F.scaled_dot_product_attention(q, q, q, {attn_mask = torch.zeros(3, 3)}),
         F.scaled_dot_product_attention(q, q, q))
   ]==]))

   it("attends with few heads of keys, and in half types", case({1, 2, 3}, [==[
      for _, case in ipairs {{"float32", 2e-6}, {"bfloat16", 0.04}, {"float16", 0.005}} do
         local dtype, limit = case[1], case[2]
         torch.manual_seed(3)
         local options = {is_causal = true, enable_gqa = true}
         local whole, wide = {}, {}
         for i, heads in ipairs {4, 2, 2, 4} do
            whole[i] = torch.randn(2, heads, 12, 8):to(dtype)
            wide[i] = whole[i]:double():requires_grad_()
         end
         local expected = F.scaled_dot_product_attention(wide[1], wide[2], wide[3], options)
         ;(expected * wide[4]:detach()):sum():backward()
         local got, mine
         x.context_parallel(mesh, whole, {-2, 3, 3, 3}, function(q, k, v, g)
            mine = {q:requires_grad_(), k:requires_grad_(), v:requires_grad_()}
            got = F.scaled_dot_product_attention(q, k, v, options)
            check(dtype, got.dtype)
            ;(got * g):sum():backward()
            for i = 1, 3 do check(dtype, mine[i].grad.dtype) end
         end)
         local all = x.context_parallel_unshard(mesh,
            {got, mine[1].grad, mine[2].grad, mine[3].grad}, {3, 3, 3, 3})
         near(all[1]:double(), expected, limit, "result")
         for i = 1, 3 do near(all[i + 1]:double(), wide[i].grad, 4 * limit, "gradient " .. i) end
      end
   ]==]))

   it("keeps no weights, neither in the forward nor in the backward pass", case(2, [==[
      local length = 2048
      local q = torch.randn(length, 8):requires_grad_()
      local function pass()
         x.ring_attention(q, q, q, mesh, {is_causal = true}):sum():backward()
         q.grad = nil
      end
      pass()
      collectgarbage() collectgarbage()
      torch.reset_peak_memory_stats()
      local before = torch.memory_allocated()
      pass()
      local peak, one = torch.max_memory_allocated() - before, 4 * length * length
      assert(peak < one / 4, ("%d bytes; the weights of one part are %d"):format(peak, one))
   ]==]))

   it("trains as one process does", case(4, [==[
      local Model = torch.class("Model", nn.Module)
      function Model:__init()
         nn.Module.__init(self)
         torch.manual_seed(1)
         self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(16, 8)
         self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 11)
      end
      function Model:forward(numbers, places, targets)
         local t = self.tokens(numbers) + self.places(places)
         local q, k, v = table.unpack(self.qkv(t):view(t:size(1), t:size(2), 3, 2, 4)
            :permute(3, 1, 4, 2, 5):unbind(1))
         local u = F.scaled_dot_product_attention(q, k, v, {is_causal = true})
         t = t + u:transpose(2, 3):flatten(3)
         return F.cross_entropy(self.head(t):flatten(1, 2), targets:flatten())
      end
      local alone, model = Model(), nn.parallel.DistributedDataParallel(Model())
      local one = torch.optim.SGD(alone:parameters(), {lr = 0.5})
      local many = torch.optim.SGD(model:parameters(), {lr = 0.5})
      local places = torch.arange(1, 17):unsqueeze(1)
      for step = 1, 5 do
         local numbers = torch.randint(1, 12, {3, 16})
         local targets = numbers % 11 + 1
         one:zero_grad() many:zero_grad()
         local expected = alone(numbers, places, targets)
         expected:backward()
         local buffers = {numbers, places, targets}
         local got = x.context_parallel(mesh, buffers, {2, 2, 2}, function(...)
            local loss = model(...)
            loss:backward()
            return loss:detach()
         end)
         dist.all_reduce(got, "avg")
         near(got, expected, 1e-5, "loss of step " .. step)
         one:step() many:step()
      end
   ]==]))

   it("refuses unsupported arguments, on every rank", case(2, [==[
      local t = torch.randn(1, 6, 2)
      refused("whose dimension 2 can be cut into 4 parts", x.context_parallel, mesh, {t}, {2},
         function() end)
      refused("one dimension for each of 1 buffers, got 2", x.context_parallel, mesh, {t},
         {2, 3}, function() end)
      t = torch.randn(1, 8, 2)
      refused("within context_parallel attn_mask", x.context_parallel, mesh, {t}, {2},
         function(q) F.scaled_dot_product_attention(q, q, q, {attn_mask = torch.ones(4, 4)}) end)
      refused("of one shape", x.ring_attention, t, t, torch.ones(1, 8, 3), mesh)
      local four, three = torch.ones(1, 4, 8, 2), torch.ones(1, 3, 8, 2)
      refused("but that heads of query may be a multiple of theirs, got (1, 4, 8, 2), (1, 3, 8, 2)",
         x.ring_attention, four, three, three, mesh, {enable_gqa = true})
      refused("expected query, key and value of one shape, got", x.ring_attention, four, three,
         three, mesh)
      local w = torch.randn(1, 8, 2):requires_grad_()
      local y = x.ring_attention(w, w, w, mesh)
      refused("ring_attention: it has no second derivative", torch.autograd.grad, y:sum(), {w},
         {create_graph = true})
      refused("an even number of positions", x.ring_attention, torch.ones(1, 3, 2),
         torch.ones(1, 3, 2), torch.ones(1, 3, 2), mesh, {is_causal = true})
      local q = torch.randn(1, 3, 2)
      assert(F.scaled_dot_product_attention(q, q, q, {attn_mask = torch.zeros(3, 3)}))
   ]==]))
end)

describe("MixtureOfExperts", function()
   local _, case <const> = ranks:run_after "experts"

   it("sends positions to their experts and back, with the gradients", case({1, 2, 4}, [==[
      for k = 1, 2 do
         local layer = build(4, k, 3)
         -- all ranks draw the weights of all experts, so that these are equal
         torch.manual_seed(3)
         local router, all = nn.Linear(6, 4, {bias = false}), {}
         for i = 1, 4 do
            local up, down = nn.Linear(6, 8), nn.Linear(8, 6)
            all[i] = nn.Sequential(up, nn.GELU(), down)
         end
         near(layer.router.weight, router.weight, 0)
         torch.manual_seed(8)
         local x, g = torch.randn(12, 6):requires_grad_(), torch.randn(12, 6)
         local expected = plain(router, all, x, k)
         ;(expected * g):sum():backward()
         -- The ranks have different numbers of positions: the first rank has one less than `each`, and the second rank
         -- one more.
         local each = 12 // size
         local from, many = rank * each + 1, each
         if size > 1 and rank == 0 then many = each - 1 end
         if size > 1 and rank == 1 then from, many = from - 1, each + 1 end
         local mine = x:detach():narrow(1, from, many):clone():requires_grad_()
         local got = layer(mine)
         near(got, expected:narrow(1, from, many))
         ;(got * g:narrow(1, from, many)):sum():backward()
         near(mine.grad, x.grad:narrow(1, from, many))
         for name, expert in layer.experts:items() do
            local theirs = all[math.tointeger(name)]:parameters()
            for i, p in ipairs(expert:parameters()) do
               if theirs[i].grad then near(p.grad * size, theirs[i].grad) end
            end
         end
         local grad = layer.router.weight.grad:clone()
         dist.all_reduce(grad)
         near(grad, router.weight.grad)
      end
   ]==]))

   it("has experts without positions, and a loss of 1 if the load is even", case(2, [==[
      local layer = build(4, 1, 1)
      torch.no_grad(function()
         layer.router.weight:zero_()
         layer.router.weight[{1}] = 50 -- this weight makes the router send all positions to the first expert
      end)
      local x = torch.ones(3, 6):requires_grad_()
      layer(x):sum():backward()
      check(4.0, math.floor(layer.aux_loss:item() * 1000 + 0.5) / 1000)
      assert(x.grad)
      if rank == 1 then
         for _, p in ipairs(layer.experts:parameters()) do
            check(0.0, p.grad:abs():max():item())
         end
      end
      torch.no_grad(function()
         layer.router.weight:zero_()
         for i = 1, 4 do layer.router.weight[{i, i}] = 1 end
      end)
      layer(torch.eye(6):narrow(1, 1, 4))
      check(1.0, math.floor(layer.aux_loss:item() * 1000 + 0.5) / 1000)
   ]==]))

   it("works with fully_shard, which does not split the experts", case(2, [==[
      local layer = build(4, 2, 3)
      local own = layer.experts:parameters()
      local model = nn.Sequential(nn.Linear(6, 6), layer)
      dist.fsdp.fully_shard(model, {ignored_params = own})
      check({8, 6}, own[1].shape)
      check(rank == 0 and 33 or 3, model[1].weight:numel())
      local sgd = torch.optim.SGD(model:parameters(), {lr = 0.1})
      torch.manual_seed(5 + rank)
      model(torch.randn(4, 6)):pow(2):mean():backward()
      local squares = torch.zeros({})
      for _, p in ipairs(model:parameters()) do
         if p.grad then squares = squares + p.grad:pow(2):sum() end
      end
      dist.all_reduce(squares)
      near(nn.utils.clip_grad_norm_(model:parameters(), 1), squares ^ 0.5)
      sgd:step()
   ]==]))

   it("refuses numbers that do not fit", case(2, [==[
      refused("num_experts: expected a multiple of the 2 ranks, got 3", MoE, 4, 4, 3)
      refused("top_k: expected 1 to 4, got 5", MoE, 4, 4, 4, {top_k = 5})
   ]==]))
end)
