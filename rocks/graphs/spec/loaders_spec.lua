-- Tests loaders of large graphs, graphs of points, random walks, random splits, and graphs with types.

local torch = require "tlua"
local device = require "spec.support.device"

local graphs = torch.graphs
local N, U = graphs.nn, graphs.utils

-- Returns a graph whose node i has the feature i, and whose edge e has the feature e.
local function numbered(n, p)
   torch.manual_seed(1)
   local edge_index = U.erdos_renyi_graph(n, {edge_prob = p, directed = true})
   return graphs.data.Data {x = torch.arange(1, n + 1):float():view(-1, 1), edge_index = edge_index,
      edge_attr = torch.arange(1, edge_index:size(2) + 1):float(), y = torch.arange(1, n + 1)}
end

describe("torch.graphs.loader.NeighborLoader", function()
   for _, workers in ipairs {0, 2} do
      it(("samples edges of the graph, with %d workers"):format(workers), function()
         if device.name and workers > 0 then pending "only tensors of the CPU travel to workers" end
         local data = numbered(60, 0.15)
         local degree = U.degree(data.edge_index[2], 60)
         local loader = graphs.loader.NeighborLoader(data, {4, 2}, {batch_size = 16, num_workers = workers})
         local seen = {}
         for batch in loader:iter() do
            assert.same(batch.n_id:tolist(), batch.x:view(-1):long():tolist())
            assert.same(batch.e_id:tolist(), batch.edge_attr:long():tolist())
            assert.same(batch.n_id:tolist(), batch.y:tolist())
            -- each sampled edge is an edge of the whole graph and occurs only once
            local whole = data.edge_index:index_select(2, batch.e_id)
            assert.same(whole[1]:tolist(), batch.n_id:index_select(1, batch.edge_index[1]):tolist())
            assert.same(whole[2]:tolist(), batch.n_id:index_select(1, batch.edge_index[2]):tolist())
            assert.equal(batch.e_id:numel(), batch.e_id:unique():numel())
            assert.equal(batch.n_id:numel(), batch.n_id:unique():numel())
            -- the seeds come first; each has 4 edges, or all its edges if it has fewer
            local counts = U.degree(batch.edge_index[2], batch.num_nodes)
            for i = 1, batch.batch_size do
               local node = batch.n_id[i]:item()
               seen[#seen + 1] = node
               assert.equal(math.min(4, degree[node]:item()), counts[i]:item())
            end
            assert.is_true(counts:max():item() <= 4)
            assert.equal(batch.num_nodes, torch.tensor(batch.num_sampled_nodes):sum():item())
         end
         assert.equal(60, #seen)
         assert.same(torch.arange(1, 61):tolist(), seen)
      end)
   end

   it("takes all neighbours for -1, so that results are those of the whole graph", function()
      local data = numbered(40, 0.1)
      torch.manual_seed(2)
      local model = N.GraphSAGE(1, 8, 2, 3)
      local whole = model(data.x, data.edge_index)
      local loader = graphs.loader.NeighborLoader(data, {-1, -1}, {batch_size = 7, input_nodes = torch.arange(5, 26)})
      for batch in loader:iter() do
         local part = model(batch.x, batch.edge_index)
         assert.close(whole:index_select(1, batch.input_id):detach(), part[{{1, batch.batch_size}}]:detach(), 1e-4)
      end
   end)

   it("raises errors that name the mistake", function()
      local data = numbered(5, 0.5)
      assert.raises("graphs.loader.NeighborLoader: num_neighbors: expected at least 0, or -1 for all, got -2",
         function() graphs.loader.NeighborLoader(data, {-2}) end)
      assert.raises("graphs.loader.NeighborLoader: input_nodes: expected positions from 1 to 5",
         function() graphs.loader.NeighborLoader(data, {1}, {input_nodes = torch.tensor {9}}) end)
   end)
end)

describe("torch.graphs.loader.ClusterLoader", function()
   -- Returns a graph of four blocks of 15 nodes, with few edges between blocks.
   local function blocks()
      torch.manual_seed(2)
      local probs = {}
      for i = 1, 4 do
         probs[i] = {}
         for k = 1, 4 do probs[i][k] = i == k and 0.6 or 0.005 end
      end
      local edge_index = U.stochastic_blockmodel_graph({15, 15, 15, 15}, probs)
      return graphs.data.Data {x = torch.arange(1, 61):float():view(-1, 1), edge_index = edge_index}
   end

   it("divides a graph into parts of similar size with few edges among them", function()
      local data = blocks()
      local set = graphs.loader.ClusterData(data, 4)
      local sizes, kept = torch.bincount(set.part):tolist(), 0
      for i = 1, 4 do
         assert.is_true(sizes[i] >= 12 and sizes[i] <= 18, table.concat(sizes, " "))
         kept = kept + set:get(i).num_edges
      end
      assert.is_true(kept / data.num_edges > 0.8, kept / data.num_edges)
   end)

   for _, workers in ipairs {0, 1} do
      it(("joins parts with the edges among them, with %d workers"):format(workers), function()
         if device.name and workers > 0 then pending "only tensors of the CPU travel to workers" end
         local data = blocks()
         local loader = graphs.loader.ClusterLoader(graphs.loader.ClusterData(data, 4),
            {batch_size = 2, shuffle = true, num_workers = workers})
         local seen, count = {}, 0
         for batch in loader:iter() do
            for _, node in ipairs(batch.x:view(-1):tolist()) do
               assert.is_nil(seen[node])
               seen[node], count = true, count + 1
            end
            local part = U.subgraph(batch.x:view(-1):long(), data.edge_index, {num_nodes = 60})
            assert.equal(part:size(2), batch.num_edges)
            local number = batch.x:view(-1):long()
            assert.same(part[1]:tolist(), number:index_select(1, batch.edge_index[1]):tolist())
         end
         assert.equal(60, count)
      end)
   end
end)

describe("knn_graph and radius_graph", function()
   it("find the same edges as a comparison of all pairs", function()
      torch.manual_seed(3)
      local x, batch = torch.rand(30, 2), torch.cat {torch.ones(12):long(), torch.ones(18):long() * 2}
      local points = x:tolist()
      local edges = N.knn_graph(x, 3, batch)
      assert.same({2, 90}, {table.unpack(edges.shape)})
      for e = 1, 90 do
         local from, to = edges[1][e]:item(), edges[2][e]:item()
         assert.equal(batch[from]:item(), batch[to]:item())
         local function distance(i)
            return (points[i][1] - points[to][1]) ^ 2 + (points[i][2] - points[to][2]) ^ 2
         end
         local nearer = 0
         for i = 1, 30 do
            local other = i ~= to and batch[i]:item() == batch[to]:item()
            if other and distance(i) < distance(from) then nearer = nearer + 1 end
         end
         assert.is_true(from ~= to and nearer < 3)
      end
      local near = N.radius_graph(x, 0.3)
      local expected = 0
      for i = 1, 30 do
         for j = 1, 30 do
            local d = ((points[i][1] - points[j][1]) ^ 2 + (points[i][2] - points[j][2]) ^ 2) ^ 0.5
            if i ~= j and d <= 0.3 then expected = expected + 1 end
         end
      end
      assert.equal(expected, near:size(2))
      assert.same({2, 60}, {table.unpack(N.knn_graph(x, 2, {loop = true}).shape)})
      assert.same({2, 2}, {table.unpack(N.knn_graph(x[{{1, 2}}], 5).shape)})
      assert.same({2, 0}, {table.unpack(N.knn_graph(torch.zeros(0, 2), 5).shape)})
   end)
end)

describe("random walks", function()
   it("follow edges, and stay at nodes without edges", function()
      torch.manual_seed(4)
      local data = graphs.datasets.KarateClub():get(1)
      for _, q in ipairs {1, 0.3} do
         local walks = N.random_walk(data.edge_index[1], data.edge_index[2], torch.arange(1, 35), 8, {p = 2, q = q})
         assert.same({34, 9}, {table.unpack(walks.shape)})
         local adjacency = U.to_dense_adj(data.edge_index)[1]
         for i = 1, 8 do
            assert.equal(34, adjacency[{walks[{{}, i}], walks[{{}, i + 1}]}]:sum():item())
         end
      end
      assert.same({{3, 3, 3}}, N.random_walk(torch.tensor {1}, torch.tensor {2}, torch.tensor {3}, 2):tolist())
   end)

   it("return and leave with the probabilities that p and q give", function()
      torch.manual_seed(5)
      -- The edges are 1 - 2, 2 - 3, 2 - 4 and 1 - 4. A walk that has gone from 1 to 2 can return to 1, go to 4 (a
      -- neighbour of 1), or go to 3.
      local edges = U.to_undirected(torch.tensor {{1, 2, 2, 1}, {2, 3, 4, 4}})
      local walks = N.random_walk(edges[1], edges[2], torch.ones(60000):long(), 2, {p = 0.5, q = 4})
      local via = walks[walks[{{}, 2}]:eq(2)]
      local counts = torch.bincount(via[{{}, 3}], {minlength = 4}):double() / via:size(1)
      -- The weights of these steps are 1/p = 2 for 1, 1/q = 0.25 for 3, and 1 for 4.
      assert.close({2 / 3.25, 0, 0.25 / 3.25, 1 / 3.25}, counts:tolist(), 0.015)
   end)

   it("give friends similar embeddings", function()
      torch.manual_seed(6)
      local data = graphs.datasets.KarateClub():get(1)
      local model = N.Node2Vec(data.edge_index, 8, 10, 5, {walks_per_node = 4})
      local optimizer = torch.optim.Adam(model:parameters(), {lr = 0.05})
      local losses = {}
      for epoch = 1, 30 do
         for pos, neg in model:loader({batch_size = 34, shuffle = true}):iter() do
            optimizer:zero_grad()
            local loss = model:loss(pos, neg)
            loss:backward()
            optimizer:step()
            losses[epoch] = loss:item()
         end
      end
      assert.is_true(losses[30] < losses[1] / 2, losses[1] .. " " .. losses[30])
   end)
end)

describe("random splits", function()
   it("divide nodes", function()
      torch.manual_seed(7)
      local data = graphs.datasets.KarateClub():get(1)
      for _, split in ipairs {"train_rest", "test_rest", "random"} do
         local out = graphs.transforms.RandomNodeSplit {split = split, num_val = 0.2, num_test = 10,
            num_train_per_class = 2}(data)
         local sum = out.train_mask:long() + out.val_mask:long() + out.test_mask:long()
         assert.is_true(sum:max():item() == 1)
         assert.equal(7, out.val_mask:sum():item())
         assert.equal(({train_rest = 17, test_rest = 8, random = 8})[split], out.train_mask:sum():item())
      end
   end)

   it("divide edges, without a leak", function()
      torch.manual_seed(8)
      local data = graphs.datasets.KarateClub():get(1)
      local train, val, test = graphs.transforms.RandomLinkSplit({is_undirected = true, num_val = 0.1, num_test = 0.2})(
         data)
      assert.same({112, 112, 126}, {train.num_edges, val.num_edges, test.num_edges})
      local function keys(index)
         local set = {}
         for e = 1, index:size(2) do set[index[1][e]:item() .. " " .. index[2][e]:item()] = true end
         return set
      end
      local all = keys(data.edge_index)
      for _, part in ipairs {val, test} do
         local message = keys(part.edge_index)
         for e = 1, part.edge_label:numel() do
            local key = part.edge_label_index[1][e]:item() .. " " .. part.edge_label_index[2][e]:item()
            assert.is_nil(message[key])
            assert.equal(part.edge_label[e]:item() == 1, all[key] ~= nil)
         end
      end
   end)
end)

describe("graphs with types", function()
   local function authors()
      local data = graphs.data.HeteroData()
      data.paper.x = torch.ones(3, 4)
      data.author.x = torch.ones(2, 2)
      data[{"author", "writes", "paper"}].edge_index = torch.tensor {{1, 2, 2}, {3, 1, 3}}
      data[{"paper", "cites", "paper"}].edge_index = torch.tensor {{1, 2}, {2, 3}}
      return data
   end

   it("have attributes for each type", function()
      local data = authors()
      assert.same({"paper", "author"}, data.node_types)
      assert.same({{"author", "writes", "paper"}, {"paper", "cites", "paper"}}, data.edge_types)
      assert.same({5, 5}, {data.num_nodes, data.num_edges})
      assert.equal(4, data.x_dict.paper:size(2))
      assert.equal(3, data.edge_index_dict.author__writes__paper:size(2))
      assert.is_true(data:validate())
      data[{"author", "writes", "paper"}].edge_index = torch.tensor {{3}, {1}}
      assert.raises("graphs.data.HeteroData: author__writes__paper: edge_index[1]: expected positions from 1 to 2",
         function() data:validate() end)
      assert.raises("expected attributes to be set in a type, as in data.paper.x",
         function() data.x = torch.ones(1) end)
   end)

   it("pass through one layer for each edge type", function()
      torch.manual_seed(9)
      local data = authors()
      local writes, cites = N.SAGEConv({2, 4}, 5), N.GraphConv(4, 5)
      for _, aggr in ipairs {"sum", "mean", "max", "cat"} do
         local conv = N.HeteroConv({author__writes__paper = writes, paper__cites__paper = cites}, aggr)
         local out = conv(data.x_dict, data.edge_index_dict)
         assert.is_nil(out.author)
         local a = writes({data.author.x, data.paper.x}, data.edge_index_dict.author__writes__paper)
         local b = cites(data.paper.x, data.edge_index_dict.paper__cites__paper)
         local expected = ({sum = a + b, mean = (a + b) / 2, max = a:maximum(b), cat = torch.cat({a, b}, 2)})[aggr]
         assert.close(expected:detach(), out.paper:detach(), 1e-6)
      end
      for _, name in ipairs {"any", "std", "median", ""} do
         local text = 'HeteroConv: aggr: expected sum, add, mean, max, min, mul or cat, got "%s"'
         assert.raises(text:format(name), function()
            N.HeteroConv({author__writes__paper = writes}, name)
         end)
      end
      local conv = N.HeteroConv {author__writes__paper = writes}
      assert.is_not_nil(conv:state_dict()["convs.<author___writes___paper>.lin_l.weight"])
   end)
end)
