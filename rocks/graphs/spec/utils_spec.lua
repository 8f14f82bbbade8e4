-- Compares functions on edges with PyTorch Geometric's results, which fixtures/layers.py has recorded, and tests random
-- functions.

local torch = require "tlua"
local device = require "spec.support.device"

local U = torch.graphs.utils
local recorded = device.moved(torch.load "rocks/graphs/spec/fixtures/utils.safetensors")
local edges, weight, batch = recorded.edges + 1, recorded.weight, recorded.batch + 1
local x, attr = recorded.x, recorded.attr

-- Compares results with the recorded results of a case. Integer results are positions, which count from 0 in the
-- fixture.
local function matches(case, counts, ...)
   local results = table.pack(...)
   local k = 0
   for i = 1, results.n do
      local out = results[i]
      local expected = recorded[("%s/%d"):format(case, k)]
      k = k + 1
      if expected ~= nil then
         if expected:is_floating_point() then
            assert.close(expected, out, 1e-6)
         elseif expected.dtype == "bool" then
            assert.same(expected:tolist(), out:tolist())
         else
            assert.same((counts and expected or expected + 1):tolist(), out:tolist())
         end
      else
         assert.is_nil(out)
      end
   end
   assert.is_nil(recorded[("%s/%d"):format(case, k)])
end

describe("torch.graphs.utils has PyTorch Geometric's results of", function()
   it("degree", function() matches("degree", false, U.degree(edges[2], 7)) end)

   for _, reduce in ipairs {"sum", "mean", "max", "min", "mul"} do
      it("coalesce, scatter and to_undirected by " .. reduce, function()
         matches("coalesce " .. reduce, false, U.coalesce(edges, weight, 7, reduce))
         matches("scatter " .. reduce, false, U.scatter(weight, edges[2], 1, 7, reduce))
         matches("to_undirected " .. reduce, false, U.to_undirected(edges, weight, 7, reduce))
      end)
   end

   it("sorting", function()
      matches("coalesce column", false, U.coalesce(edges, weight, 7, {sort_by_row = false}))
      matches("sort", false, U.sort_edge_index(edges, weight, 7))
   end)

   it("self loops", function()
      matches("remove_self_loops", false, U.remove_self_loops(edges, weight))
      matches("add_self_loops", false, U.add_self_loops(edges, weight, 2, 7))
      matches("add_self_loops mean", false, U.add_self_loops(edges, weight, "mean", 7))
      matches("add_remaining", false, U.add_remaining_self_loops(edges, weight, "max", 7))
      matches("segregate", false, U.segregate_self_loops(edges, weight))
   end)

   it("parts of a graph", function()
      matches("remove_isolated", false, U.remove_isolated_nodes(edges, weight, 7))
      matches("subgraph", false, U.subgraph({5, 1, 2}, edges, weight,
         {relabel_nodes = true, num_nodes = 7, return_edge_mask = true}))
      matches("k_hop", false, U.k_hop_subgraph({3, 6}, 1, edges, {relabel_nodes = true, num_nodes = 7}))
      matches("k_hop directed", false, U.k_hop_subgraph(4, 2, edges,
         {num_nodes = 7, flow = "target_to_source", directed = true}))
   end)

   it("softmax and segment", function()
      matches("softmax", false, U.softmax(attr, edges[2], {num_nodes = 7}))
      local ptr = torch.tensor {1, 5, 5, 12}
      matches("softmax ptr", false, U.softmax(attr, {ptr = ptr}))
      matches("segment mean", false, U.segment(attr, ptr, "mean"))
   end)

   it("dense matrices", function()
      local five = edges[{{}, torch.tensor {1, 2, 3, 9, 10}}]
      matches("to_dense_adj", false, U.to_dense_adj(five, batch, weight[{{1, 5}}], {batch_size = 5}))
      matches("to_dense_adj cut", false, U.to_dense_adj(edges, {edge_attr = attr, max_num_nodes = 4}))
      matches("to_dense_batch", false, U.to_dense_batch(x, batch, 9, 2, 5))
      matches("dense_to_sparse", false, U.dense_to_sparse(U.to_dense_adj(edges, {edge_attr = weight})[1]))
   end)

   for _, kind in ipairs {"None", "sym", "rw"} do
      it("get_laplacian: " .. kind, function()
         matches("laplacian " .. kind, false, U.get_laplacian(edges, weight, kind ~= "None" and kind or nil,
            {num_nodes = 7}))
      end)
   end
end)

describe("torch.graphs.utils", function()
   it("detects undirected graphs, self loops and isolated nodes", function()
      assert.is_false(U.is_undirected(edges))
      local both, value = U.to_undirected(edges, torch.ones(11))
      assert.is_true(U.is_undirected(both, value))
      value[1] = 100
      assert.is_false(U.is_undirected(both, value))
      assert.is_true(U.contains_self_loops(edges))
      assert.is_true(U.contains_isolated_nodes(edges, 7))
      assert.is_false(U.contains_isolated_nodes(edges))
   end)

   it("splits joined batches", function()
      local parts = U.unbatch(x, batch)
      assert.same({3, 2, 0, 2}, {#parts[1], #parts[2], parts[3]:size(1), #parts[4]})
      local list = U.unbatch_edge_index(torch.tensor {{1, 3, 4, 6}, {2, 1, 5, 7}}, batch)
      assert.same({{1, 3}, {2, 1}}, list[1]:tolist())
      assert.same({{1}, {2}}, list[4]:tolist())
   end)

   local function set_of(index)
      local set, count = {}, 0
      for e = 1, index:size(2) do
         local key = index[1][e]:item() .. " " .. index[2][e]:item()
         if not set[key] then count = count + 1 end
         set[key] = true
      end
      return set, count
   end

   it("samples edges that the graph lacks, each once", function()
      torch.manual_seed(1)
      local present = set_of(edges)
      for _, options in ipairs {{num_neg_samples = 20}, {num_neg_samples = 1000}, {num_nodes = {7, 9}},
         {force_undirected = true}, {num_neg_samples = 0.5, num_nodes = 7}, {method = "dense"}} do
         local negative = U.negative_sampling(edges, options)
         local set, count = set_of(negative)
         assert.equal(negative:size(2), count)
         assert.is_true(count > 0)
         for key in pairs(set) do
            assert.is_nil(present[key])
            local row, col = key:match "(%d+) (%d+)"
            if type(options.num_nodes) ~= "table" then assert.not_equal(row, col) end
            if options.force_undirected then assert.is_true(set[col .. " " .. row]) end
         end
      end
      assert.equal(5, U.negative_sampling(edges, {num_neg_samples = 0.5, num_nodes = 7}):size(2))
      local complete = U.erdos_renyi_graph(4, 1)
      assert.same({2, 0}, {table.unpack(U.negative_sampling(complete).shape)})
      -- The graph has 6 of the 4 * 3 possible edges, so 6 edges that it lacks are found.
      assert.equal(6, U.negative_sampling(complete:narrow(2, 1, 6), {num_neg_samples = 50}):size(2))
   end)

   it("samples few edges among very many", function()
      torch.manual_seed(1)
      local large = torch.randint(1, 100001, {2, 5000})
      local negative = U.negative_sampling(large, 100000)
      assert.equal(5000, negative:size(2))
      local _, count = set_of(negative)
      assert.equal(5000, count)
      assert.is_true(negative:max():item() <= 100000)
   end)

   it("drops edges and nodes", function()
      torch.manual_seed(2)
      local many = U.erdos_renyi_graph(40, 0.5)
      local kept, mask = U.dropout_edge(many, 0.3)
      assert.same(many[{{}, mask}]:tolist(), kept:tolist())
      assert.is_true(math.abs(kept:size(2) / many:size(2) - 0.7) < 0.1)
      local both, id = U.dropout_edge(many, {p = 0.3, force_undirected = true})
      assert.is_true(U.is_undirected(both))
      assert.equal(both:size(2), #id)
      local part, edge_mask, node_mask = U.dropout_node(many, 0.5)
      assert.same(many[{{}, edge_mask}]:tolist(), part:tolist())
      assert.is_true(node_mask:index_select(1, part:reshape(-1)):all():item())
      local numbered = U.dropout_node(many, {p = 0.5, relabel_nodes = true})
      assert.is_true(numbered:max():item() < 40)
      assert.equal(many, (U.dropout_edge(many, {training = false})))
      assert.equal(0, (U.dropout_edge(many, 1)):size(2))
   end)

   it("makes random graphs", function()
      torch.manual_seed(3)
      local graph = U.erdos_renyi_graph(30, 0.2)
      assert.is_true(U.is_undirected(graph) and not U.contains_self_loops(graph))
      assert.is_false(U.is_undirected((U.erdos_renyi_graph(30, {edge_prob = 0.2, directed = true}))))
      local blocks = U.stochastic_blockmodel_graph({5, 5}, {{1, 0}, {0, 1}})
      assert.equal(40, blocks:size(2))
      local grown = U.barabasi_albert_graph(50, 3)
      assert.is_true(U.is_undirected(grown) and not U.contains_self_loops(grown))
      assert.is_false(U.contains_isolated_nodes(grown, 50))
   end)

   it("works on graphs without edges or nodes", function()
      local none = torch.zeros(2, 0, {dtype = "int64"})
      assert.same({2, 0}, {table.unpack(U.coalesce(none).shape)})
      assert.same({2, 3}, {table.unpack(U.add_self_loops(none, {num_nodes = 3}).shape)})
      assert.same({}, U.degree(none[1]):tolist())
      assert.same({0, 0}, U.degree(none[1], 2):tolist())
      assert.is_true(U.is_undirected(none))
      assert.same({2, 0}, {table.unpack(U.to_undirected(none).shape)})
      assert.same({1, 0, 0}, {table.unpack(U.to_dense_adj(none).shape)})
      assert.same({2, 0}, {table.unpack(U.dropout_edge(none).shape)})
      assert.same({0, 0}, U.scatter(torch.zeros(0), none[1], {dim_size = 2, reduce = "max"}):tolist())
      assert.same({2, 2}, {table.unpack(U.get_laplacian(none, {num_nodes = 2}).shape)})
   end)

   it("returns means of integers as floating numbers", function()
      local src, index = torch.tensor {1, 2, -1, -2}, torch.tensor {1, 1, 3, 3}
      local mean = U.scatter(src, index, {reduce = "mean"})
      assert.equal("float32", mean.dtype)
      assert.same({1.5, 0, -1.5}, mean:tolist())
      assert.same({0.25, 0, 0.25}, U.scatter(src, index, {reduce = "var"}):tolist())
      assert.same({0.5, 0, 0.5}, U.scatter(src, index, {reduce = "std"}):tolist())
   end)

   it("names invalid arguments", function()
      local function fails(text, fn) assert.raises(text, fn) end
      fails("graphs.utils.coalesce: edge_index: expected an int64 tensor of shape (2, edges), got a float32 tensor",
         function() U.coalesce(torch.ones(2, 3)) end)
      fails("edge_index: expected an int64 tensor of shape (2, edges), got an int64 tensor of shape (3, 2)",
         function() U.coalesce(torch.ones(3, 2):long()) end)
      fails("graphs.utils.degree: index: expected positions from 1 to 2, the number of nodes, got 3",
         function() U.degree(torch.tensor {1, 3}, 2) end)
      fails("graphs.utils.to_undirected: edge_index: expected positions of at least 1, got 0",
         function() U.to_undirected(torch.tensor {{0}, {1}}) end)
      fails("graphs.utils.coalesce: edge_attr: expected a tensor with 11 rows, one for each edge, got a float32",
         function() U.coalesce(edges, torch.ones(3)) end)
      fails("graphs.utils.scatter: reduce: expected sum, add, mean, max, min, mul, var or std, got \"median\"",
         function() U.scatter(weight, edges[1], {reduce = "median"}) end)
      fails("graphs.utils.to_dense_batch: batch: expected ascending numbers of graphs, got an unsorted vector",
         function() U.to_dense_batch(x, batch:flip(1)) end)
      fails("graphs.utils.to_dense_batch: batch: expected 7 positions, one for each node",
         function() U.to_dense_batch(x, batch[{{1, 3}}]) end)
      fails("graphs.utils.dropout_edge: p: expected a number from 0 to 1, got 2",
         function() U.dropout_edge(edges, 2) end)
      fails("graphs.utils.subgraph: subset: expected positions from 1 to 6, the number of nodes, got 9",
         function() U.subgraph({9}, edges) end)
   end)
end)
