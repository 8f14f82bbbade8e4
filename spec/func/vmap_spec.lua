-- Tests torch.func.vmap: its options, and every operator of the table on batches made from the operator's examples.
local torch = require "tlua"
local table_of = require "spec.support.table"
local vmap = torch.func.vmap

describe("vmap", function()
   local x = torch.arange(0, 6):float():view(2, 3)

   it("maps along the dimensions of in_dims", function()
      local function dot(a, b) return (a * b):sum() end
      assert.same({5, 50}, vmap(dot)(x, x):tolist())
      assert.same({9, 17, 29}, vmap(dot, {in_dims = 2})(x, x):tolist())
      assert.same({9, 17, 29}, vmap(dot, {in_dims = {-1, 2}})(x, x):tolist())
      assert.same({5, 14}, vmap(dot, {in_dims = {1, false}})(x, x[1]):tolist())
   end)

   it("stacks results along the dimensions of out_dims", function()
      local function both(a) return a * 2, a:sum() end
      local twice, sums = vmap(both, {out_dims = {2, 1}})(x)
      assert.same({3, 2}, twice.shape)
      assert.same({3, 12}, sums:tolist())
      assert.same({0, 1, 2}, vmap(function(a) return a end, {out_dims = false})(x):tolist())
   end)

   it("allows ipairs over an example's rows", function()
      local batch, calls = torch.tensor {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}, 0
      local sums = torch.vmap(function(rows)
         calls = calls + 1
         local sum = 0
         for i, row in ipairs(rows) do sum = sum + i * row:sum() end
         return sum
      end)(batch)
      assert.same({1 * 3 + 2 * 7, 1 * 11 + 2 * 15}, sums:tolist())
      assert.equal(1, calls)
   end)

   it("takes and returns tables", function()
      local result = vmap(function(p) return {sum = p.a + p.b, p.a} end,
         {in_dims = {{a = 1, b = false}}}) {a = x, b = torch.ones(3)}
      assert.same({{1, 2, 3}, {4, 5, 6}}, result.sum:tolist())
      assert.close(x, result[1], 0)
   end)

   it("refuses tables that contain themselves, and takes a tensor twice in one", function()
      local round = {a = x}
      round.b = {round}
      assert.raises("func.vmap: argument 1: a table contains itself", function()
         vmap(function(p) return p.a end)(round)
      end)
      assert.raises("func.vmap: result 1: a table contains itself", function()
         vmap(function() return round end)(x)
      end)
      assert.raises("torch.func: a table contains itself", function()
         torch.func.grad(function(p) return p.a:sum() end)(round)
      end)
      assert.raises("data.default_collate: items: a table contains itself",
         function() torch.data.default_collate {{round}, {round}} end)
      local part = {x}
      assert.same({{6, 8, 10}, {12, 14, 16}},
         vmap(function(p) return p[1][1] + p[2][1] + 6 end)({part, part}):tolist())
   end)

   it("may be nested", function()
      local outer = vmap(function(a) return vmap(function(b) return (a * b):sum() end)(x) end)(x)
      assert.close(x:matmul(x:t()), outer, 1e-6)
   end)

   -- Returns how often vmap calls a function that takes one example of x. A single call shows that vmap does not loop
   -- over the examples.
   local function calls_of(fn, options)
      local calls = 0
      vmap(function(...)
         calls = calls + 1
         return fn(...)
      end, options)(x)
      return calls
   end

   it("calls the function once if all operators have rules or loops over the examples", function()
      local net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4))
      assert.equal(1, calls_of(net))
      assert.equal(1, calls_of(function(a) return (2 - a) ^ 2 / (a + x[1]) end))
      assert.equal(1, calls_of(function(a) return a[1] * a:sum() + a.shape[1] end))
      assert.equal(1, calls_of(function(a) return torch.cat({a, x[1]}):softmax(1) end))
      assert.equal(1, calls_of(function(a) return torch.trapezoid(a) end))
      -- keeps the original functions, which vmap replaces while it runs
      local scale, sum = torch.mul, torch.sum
      assert.equal(1, calls_of(function(a) return sum(scale(a, 2)) end))
   end)

   it("calls the function again for each example if it branches on their values", function()
      assert.equal(3, calls_of(function(a) return a:sum():item() < 0 and -a or a end))
      assert.equal(3, calls_of(function(a) return a + torch.rand(3) end, {randomness = "different"}))
      local shared = torch.zeros(3)
      assert.equal(3, calls_of(function(a)
         shared:add_(a)
         return a
      end))
      assert.same({3, 5, 7}, shared:tolist())
   end)

   it("calls the function for each example if it writes to a shared tensor by an index or by out", function()
      local shared = torch.zeros(3)
      assert.equal(3, calls_of(function(a)
         shared[1] = shared[1] + 1
         return a
      end))
      assert.same({2, 0, 0}, shared:tolist())
      assert.equal(3, calls_of(function(a)
         -- catching an error inside the function has no lasting effect
         pcall(torch.matmul, a, torch.ones(7))
         torch.add(shared, 1, {out = shared})
         return a
      end))
      assert.same({4, 2, 2}, shared:tolist())
   end)

   it("writes to an argument once, however often the function is called", function()
      local own = x:clone()
      local result = vmap(function(a)
         a:add_(100)
         return a:sum():item() > 0 and a * 1 or a
      end)(own)
      assert.close(x + 100, own, 0)
      assert.close(x + 100, result, 0)
      local outer = x:clone()
      vmap(function(a)
         vmap(function(b) return b:mul_(2):sum() end)(a)
         return a:sum():item() > 0 and a or -a
      end)(outer)
      assert.close(x * 2, outer, 0)
   end)

   it("may yield, and may be left unfinished", function()
      local co = coroutine.wrap(function()
         vmap(function(a)
            coroutine.yield(1)
            return a
         end)(x)
      end)
      assert.equal(1, co())
      assert.same({2, 2}, torch.ones(2):add_(1):tolist())
   end)

   it("refuses tensors kept from a call that has ended", function()
      local kept
      vmap(function(a)
         kept = a
         return a
      end)(x)
      assert.raises("add: expected Tensors", function() vmap(function(a) return a + kept end)(x) end)
      assert.raises("func.vmap: result 1: expected a tensor", function() vmap(function() return kept end)(x) end)
      assert.equal(15, vmap(function(a) return a end)(x):sum():item())
   end)

   it("does not change an outer tensor that the function returns", function()
      local result = vmap(function(a) return a end)(x)
      result:zero_()
      assert.equal(15, x:sum():item())
   end)

   it("keeps the dtype that one example gives", function()
      local ints, halves = torch.tensor {1, 2}, torch.tensor({1, 2}, {dtype = "float64"})
      local function add(a, b) return a + b end
      assert.equal("float32", vmap(add)(halves, torch.ones(2, 3)).dtype)
      assert.equal("float32", vmap(function(a) return a * 1.5 end)(ints).dtype)
      assert.equal("int64", vmap(add)(ints, torch.ones(2, 3):int():long()).dtype)
   end)

   it("restores the operators after an error", function()
      assert.raises("inner sizes differ", function()
         vmap(function(a) return a:unsqueeze(1):matmul(torch.ones(2, 2)) end)(x)
      end)
      local sum = torch.zeros(3)
      assert.same({1, 1, 1}, sum:add_(1):tolist())
   end)

   it("gives per-sample gradients by one call", function()
      local nn, func = torch.nn, torch.func
      local net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
      local params = {}
      for name, p in net:named_parameters() do params[name] = p:detach() end
      local inputs, labels, calls = torch.randn(6, 5), torch.randint(1, 4, {6}), 0
      local function loss(p, a, label)
         calls = calls + 1
         return nn.functional.cross_entropy(func.functional_call(net, p, a), label)
      end
      local each = vmap(func.grad(loss), {in_dims = {false, 1, 1}})(params, inputs, labels)
      assert.equal(1, calls)
      for i = 1, 6 do
         local own = nn.functional.cross_entropy(net(inputs[i]), labels[i])
         net:zero_grad()
         own:backward()
         for name, p in net:named_parameters() do assert.close(p.grad, each[name][i], 1e-6) end
      end
   end)

   -- Tests layers that have separate parameters for each example, as per-sample gradients need them.
   local F = torch.nn.functional
   local function random(...) return torch.randn(...):double() end
   local layers = {
      {"conv2d", random(3, 2, 4, 6, 6), random(3, 6, 2, 3, 3), random(3, 6),
         function(a, w, b) return F.conv2d(a, w, b, 2, 1, 1, 2) end},
      {"conv_transpose2d", random(3, 2, 4, 3, 3), random(3, 4, 3, 2, 2), random(3, 6),
         function(a, w, b) return F.conv_transpose2d(a, w, b, {stride = 2, groups = 2}) end},
      {"conv_transpose1d", random(3, 4, 5), random(3, 4, 2, 3), random(3, 2),
         function(a, w, b) return F.conv_transpose1d(a, w, b) end},
      {"group_norm", random(3, 2, 4, 3, 3), random(3, 4), random(3, 4),
         function(a, w, b) return F.group_norm(a, 2, w, b) end},
      {"group_norm", random(3, 2, 4), random(3, 4), random(3, 4),
         function(a, w, b) return F.group_norm(a, 2, w, b) end},
      {"instance_norm", random(3, 2, 4, 5), random(3, 4), random(3, 4),
         function(a, w, b) return F.instance_norm(a, {weight = w, bias = b}) end},
      {"batch_norm", random(3, 4, 2, 5), random(3, 2), random(3, 2), function(a, w, b)
         local mean, var = torch.ones(2):double(), torch.full({2}, 2.5):double()
         return F.batch_norm(a, mean, var, {weight = w, bias = b})
      end},
      {"layer_norm", random(3, 4, 2, 5), random(3, 5), random(3, 5),
         function(a, w, b) return F.layer_norm(a, {5}, w, b) end},
      {"prelu", random(3, 2, 4, 3), random(3, 4), random(3, 4),
         function(a, w, b) return F.prelu(a, w) + b:view(-1, 1) end},
      {"prelu of one slope", random(3, 2), random(3, 1), random(3, 2),
         function(a, w, b) return F.prelu(a, w) * b end},
   }
   for _, row in ipairs(layers) do
      local name, a, w, b, layer = table.unpack(row)
      it("calls " .. name .. " once for examples with weights of their own", function()
         local function slopes(...)
            return torch.func.grad(function(...) return layer(...):sin():sum() end, {argnums = {1, 2, 3}})(...)
         end
         local p = torch.profiler.profile(function() return vmap(layer)(a, w, b) end)
         local all, each = vmap(layer)(a, w, b), vmap(slopes)(a, w, b)
         for i = 1, 3 do
            assert.close(layer(a[i], w[i], b[i]), all[i], 1e-12)
            for k, slope in ipairs(slopes(a[i], w[i], b[i])) do assert.close(slope, each[k][i], 1e-11) end
         end
         local selects = 0
         for _, average in ipairs(p:key_averages()) do
            if average.key == "select" then selects = average.count end
         end
         assert.equal(0, selects) -- vmap has not looped over the examples, because that would call select
         assert.close(layer(a[1], w[1], b[1]), vmap(layer, {in_dims = {false, 1, 1}})(a[1], w, b)[1], 1e-12)
      end)
   end

   it("works with second derivatives and a vmap in the function", function()
      local func, calls = torch.func, 0
      local function cube(a)
         calls = calls + 1
         return (a ^ 3):sum()
      end
      local hessians = vmap(func.hessian(cube))(x:double())
      assert.equal(1, calls)
      for i = 1, 2 do assert.close(torch.diag(x[i]:double() * 6), hessians[i], 1e-12) end
      local slopes = vmap(function(a) return vmap(func.grad(function(b) return (a * b * b):sum() end))(x) end)(x)
      for i = 1, 2 do for k = 1, 2 do assert.close(x[i] * x[k] * 2, slopes[i][k], 1e-6) end end
   end)

   it("allows the function to read values", function()
      local abs = vmap(function(a) if a:item() < 0 then return -a end return a end)
      assert.same({1, 2}, abs(torch.tensor {-1.0, 2.0}):tolist())
   end)

   it("passes gradients", function()
      local w = torch.ones(2, 3):requires_grad_()
      vmap(function(a, b) return (a * b):sum() end)(w, x):sum():backward()
      assert.close(x, w.grad, 0)
   end)

   it("draws random numbers as the option randomness says", function()
      local function noise(a) return a + torch.rand(3) end
      assert.raises("draws random numbers", function() vmap(noise)(x) end)
      torch.manual_seed(1)
      local expected = torch.rand(3)
      torch.manual_seed(1)
      local same = vmap(noise, {randomness = "same"})(torch.zeros(2, 3))
      assert.close(torch.stack {expected, expected}, same, 0)
      torch.manual_seed(1)
      local first, second = torch.rand(3), torch.rand(3)
      torch.manual_seed(1)
      local different = vmap(noise, {randomness = "different"})(torch.zeros(2, 3))
      assert.close(torch.stack {first, second}, different, 0)
   end)

   it("raises the errors of a single example", function()
      local functions = {
         function(a) return a:sum(-2) end,
         function(a) return a:sum():sum(7) end,
         function(a) return a:cumsum(1, true) end,
         function(a) return a:logsumexp() end,
         function(a) return torch.addmm(torch.zeros(3, 2), a:view(1, 3), torch.ones(3, 2)) end,
         function(a) return a:softmax(-2) end,
         function(a) return a.mT end,
         function(a) return a:unsqueeze(-3) end,
         function(a) return a:transpose(-2, -1) end,
         function(a) return torch.cat({a, a}, -2) end,
         function(a) return torch.stack({a, a}, -3) end,
         function(a) return a:flatten(-2, -1) end,
         function(a) return F.pad(a, {0, 0, 1, 1}) end,
         function(a) return F.layer_norm(a, {2, 3}) end,
         function(a) return torch.mm(a, torch.ones(3, 2)) end,
         function(a) return torch.mv(a, torch.ones(3)) end,
         function(a) return torch.dot(a:view(1, 3), torch.ones(3, 1)) end,
         function(a) return torch.outer(a:view(3, 1), torch.ones(3, 1)) end,
         function(a) return torch.addmm(torch.zeros(2), a, torch.ones(3, 2)) end,
      }
      for k, fn in ipairs(functions) do
         local ok, fault = pcall(fn, x[1])
         assert.is_false(ok, "function " .. k)
         local also, of_batch = pcall(vmap(fn), x)
         assert.is_false(also, "function " .. k)
         assert.equal(tostring(fault), tostring(of_batch))
      end
   end)

   it("refuses wrong arguments", function()
      local function id(a) return a end
      assert.raises("the mapped sizes differ: 2 in argument 1, 3 in argument 2",
         function() vmap(id)(x, torch.ones(3)) end)
      assert.raises("in_dims: expected a dimension of argument 1", "got 3", function() vmap(id, {in_dims = 3})(x) end)
      assert.raises("in_dims: expected 1 of them, one for each argument, got 2",
         function() vmap(id, {in_dims = {1, 1}})(x) end)
      assert.raises("in_dims is false for all", function() vmap(id, {in_dims = false})(x) end)
      assert.raises("at least one example", function() vmap(id)(torch.zeros(0, 3)) end)
      assert.raises("result 1: expected a tensor, got 3", function() vmap(function() return 3 end)(x) end)
      assert.raises("randomness: expected error, same or different, got \"some\"",
         function() vmap(id, {randomness = "some"}) end)
      assert.raises("out_dims: expected a dimension from 1 to 2", function() vmap(id, {out_dims = 4})(x) end)
   end)
end)

-- Returns whether a node, or a node that its gradient flows to, has the name `name`.
local function has_node(node, name)
   if torch.is_tensor(node) then return false end
   if tostring(node) == name then return true end
   for _, edge in ipairs(node.next_functions) do
      if edge[1] and has_node(edge[1], name) then return true end
   end
   return false
end

describe("vmap's rules", function()
   local F, linalg = torch.nn.functional, torch.linalg
   torch.manual_seed(3)
   local function randn(...) return torch.randn(..., {dtype = "float64"}) end
   local maps, square, other, vectors = randn {3, 2, 4, 6, 6}, randn {3, 4, 4}, randn {3, 4, 4},
      randn {3, 4}
   local places, distinct = torch.randint(1, 5, {3, 2}), torch.tensor {{1, 3}, {4, 2}, {2, 3}}
   local images, matrix, vector, place = maps[1], square[1], vectors[1], distinct[1]
   local means, spreads = randn {4}, randn {4}:abs() + 1

   -- Functions of one example. They also use tensors from outside, which all examples share. If vmap looped over the
   -- examples, it would stack the results.
   local cases = {
      {"einsum of both", function(a, b) return torch.einsum("ij,jk->ik", a, b) end, square, other},
      {"einsum with a shared matrix", function(a) return torch.einsum("ij, jk", {a, matrix}) end, square},
      {"einsum with a shared matrix in front",
         function(a) return torch.einsum("ij,...j->...i", matrix, a) end, square},
      {"einsum of a diagonal", function(a) return torch.einsum("ii->i", a) end, square},
      {"interpolate", function(a) return F.interpolate(a, {scale_factor = 2, mode = "bilinear"}) end, maps},
      {"batch_norm in training", function(a) return F.batch_norm(a, nil, nil, means, spreads, true) end, maps},
      {"batch_norm by running statistics", function(a) return F.batch_norm(a, means, spreads) end, maps},
      {"batch_norm with weights of each example",
         function(a, b) return F.batch_norm(a, means, spreads, b) end, maps, vectors},
      {"instance_norm", function(a) return F.instance_norm(a) end, maps},
      {"index_add at shared places", function(a) return a:index_add(1, place, matrix[{{1, 2}}]) end, square},
      {"index_add to a shared tensor", function(a) return matrix:index_add(2, place, a) end,
         square[{{}, {}, {1, 2}}]},
      {"index_add at places of its own",
         function(a, at) return a:index_add(-1, at, a[{{}, {1, 2}}], {alpha = 2}) end, square, places},
      {"index_copy", function(a, at) return a:index_copy(1, at, matrix[{{3, 4}}]) end, square, distinct},
      {"index_fill", function(a, at) return a:index_fill(2, at, 0.5) end, square, places},
      {"index_select", function(a, at) return a:index_select(2, at) end, square, places},
      {"rows by places of its own", function(a, at) return a[at] end, square, places},
      {"a row by a place of its own", function(a, at) return a[at[1]] end, square, places},
      {"a range", function(a) return a[{{2, 3}, -1}] end, square},
      {"shared places", function(a) return a[{{}, place}] end, square},
      {"solve with vectors", function(a, b) return linalg.solve(a, b) end, square, vectors},
      {"solve with a shared vector", function(a) return linalg.solve(a, vector) end, square},
      {"solve with a shared matrix", function(b) return linalg.solve(matrix, b) end, vectors},
      {"solve with matrices", function(a, b) return linalg.solve(a, b) end, square, other},
      {"solve from the right", function(a, b) return linalg.solve(a, b, {left = false}) end, square, other},
      {"solve_triangular", function(b) return linalg.solve_triangular(matrix, b, {upper = true}) end, other},
      {"cholesky_solve", function(b) return torch.cholesky_solve(b, matrix) end, other},
      {"norms", function(a) return linalg.norm(a) + linalg.matrix_norm(a) end, square},
      {"embedding with weights of its own", function(w, at) return F.embedding(at, w) end, square, places},
      {"take_along_dim", function(a, at) return a:take_along_dim(at, 1) end, vectors, places},
      {"cross", function(a) return linalg.cross(a[{{1, 3}}], vector[{{2, 4}}]) end, vectors},
      {"an elementwise function without a rule of its own", function(a) return torch.angle(a) end, square},
      {"trace", function(a) return a:trace() end, square},
      {"diag", function(a, b) return torch.diag(a, 1) + torch.diag(torch.diag_embed(b), 1) end, square, vectors},
      {"inner", function(a) return torch.inner(matrix, a) end, vectors},
      {"cosine_similarity", function(a) return F.cosine_similarity(a, vector, 1) end, square},
      {"normalize", function(a) return F.normalize(a) end, square},
      {"grid_sample", function(a) return F.grid_sample(a, images[{{}, {1, 3}, {}, {1, 2}}]) end, maps},
      {"unfold", function(a) return F.unfold(a, 2) end, maps},
      {"stacks", function(a) return torch.hstack {a, vector} + torch.vstack({a, a}):flatten() end,
         vectors, stacks = true},
      {"jvp", function(a, t)
         return select(2, torch.func.jvp(function(b) return (b * b):sin() end, {a}, {t}))
      end, vectors, vectors * 2},
      {"jacfwd", torch.func.jacfwd(function(b) return b:sin() * vector end), vectors, stacks = true},
      {"linearize", function(a)
         local _, push = torch.func.linearize(function(b) return (b * b):sum() end, a)
         return push(vector)
      end, vectors},
   }

   for _, case in ipairs(cases) do
      it("make one call for all examples: " .. case[1], function()
         local fn, given, calls = case[2], {table.unpack(case, 3)}, 0
         for _, arg in ipairs(given) do
            if arg:is_floating_point() then arg:requires_grad_() end
         end
         local result = vmap(function(...)
            calls = calls + 1
            return fn(...)
         end)(table.unpack(given))
         assert.equal(1, calls)
         assert.equal(case.stacks or false, has_node(result.grad_fn, "<StackBackward0>"))
         for i = 1, 3 do
            local own = {}
            for k, arg in ipairs(given) do own[k] = arg[i] end
            assert.close(fn(table.unpack(own)):detach(), result[i]:detach(), 1e-10)
         end
      end)
   end

   it("keep to an example's own rows", function()
      local at = torch.tensor {{1, 2}, {2, 5}, {3, 1}}
      assert.raises("embedding", function() vmap(function(w, i) return F.embedding(i, w) end)(square, at) end)
      assert.raises("index_select", function() vmap(function(a, i) return a:index_select(1, i) end)(square, at) end)
   end)

   it("leave unsupported arguments to calls for each example", function()
      local mean = torch.zeros(4, {dtype = "float64"})
      local function step(a) return F.batch_norm(a, mean, nil, nil, nil, true) end
      assert.is_false(pcall(step, images[1]))
      assert.is_false(pcall(vmap(step), maps[1]))
      assert.is_false(pcall(vmap(torch.diag_embed), torch.ones(3)))
      local calls = 0
      local mask = vmap(function(a)
         calls = calls + 1
         return a[a:gt(-100)]
      end)(vectors:detach())
      assert.close(vectors:detach(), mask, 0)
      assert.equal(4, calls)
   end)
end)

-- Returns the same arguments, but with slightly smaller floating-point numbers.
local function smaller(args)
   return table_of.map(args, function(t) return t:is_floating_point() and (t:detach() * 0.9) or t end)
end

-- Makes a batch of two examples from the arguments of two calls. Returns the batch, and the dimensions to map over in a
-- table of the same structure.
local function batch(first, second)
   if torch.is_tensor(first) then return torch.stack {first:detach(), second:detach()}, 1 end
   if type(first) ~= "table" then return first, false end
   local both, dims = {}, {}
   for key in pairs(first) do both[key], dims[key] = batch(first[key], second[key]) end
   return both, dims
end

local function only_tensors(results)
   for i = 1, results.n do
      if not torch.is_tensor(results[i]) then return false end
   end
   return results.n > 0
end

-- Runs an operator on a batch of two examples by vmap, and on each example alone. Returns two results. The first is an
-- error message, or nil if vmap gave the same results. The second is false if the operator does not return tensors, so
-- that nothing was compared.
local function check(row, text)
   local args = table_of.arguments(text)
   local less = smaller(args)
   local expected = {table_of.call(row, args), table_of.call(row, less)}
   if not only_tensors(expected[1]) then return nil, false end
   local batched, dims = {}, {}
   for k = 1, args.n do
      batched[k], dims[k] = batch(args[k], less[k])
      if batched[k] == nil then dims[k] = false end
   end
   local function operator(...) return table.unpack(table_of.call(row, table.pack(...))) end
   local ok, fault = pcall(function()
      local mapped = vmap(operator, {in_dims = dims, randomness = "same"})
      local results = table.pack(mapped(table.unpack(batched, 1, args.n)))
      for i = 1, expected[1].n do
         for k = 1, 2 do assert.close(expected[k][i]:detach(), results[i][k], 1e-12) end
      end
   end)
   return not ok and (type(fault) == "table" and fault.message or fault) or nil, true
end

-- This test leaves these operators to other specs: as_strided depends on the memory behind a view, and a build may lack
-- the devices to which `cuda` and `sim` copy.
local elsewhere = {as_strided = true, cuda = true, sim = true}

it("vmap of every operator equals the operator on each example", function()
   local faults, walked = {}, 0
   for _, row in ipairs(table_of.rows()) do
      for _, text in ipairs(elsewhere[row.name] and {} or row.examples) do
         if text:find "[TPUIM]%(" or text:find "SPD" then
            local fault, done = check(row, text)
            if done then walked = walked + 1 end
            if fault then faults[#faults + 1] = ("%s(%s): %s"):format(row.path, text, fault) end
         end
      end
   end
   assert.equal("", table.concat(faults, "\n"))
   assert.is_true(walked > 1100, "examples walked: " .. walked)
end)
