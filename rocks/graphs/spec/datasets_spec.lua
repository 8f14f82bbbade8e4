-- Tests the karate club and the datasets that are read from files.

local torch = require "tlua"
local shell = require "spec.support.shell"

local D = torch.graphs.datasets

local function write(path, text)
   local file = assert(io.open(path, "wb"))
   file:write(text):close()
end

describe("torch.graphs.datasets", function()
   it("has the karate club with the same numbers as PyTorch Geometric", function()
      local set = D.KarateClub()
      local data = set:get(1)
      assert.equal(1, #set)
      assert.same({34, 156, 34, 4}, {data.num_nodes, data.num_edges, data.num_features, data.num_classes})
      assert.is_true(data:is_undirected() and data:is_coalesced())
      assert.is_false(data:has_self_loops() or data:has_isolated_nodes())
      assert.same({13, 12, 4, 5}, torch.bincount(data.y):tolist())
      assert.same({1, 5, 9, 25}, data.train_mask:nonzero():view(-1):tolist())
      -- These lines check the degrees of the members 1, 3, 12, 33 and 34.
      local degree = torch.graphs.utils.degree(data.edge_index[1], 34)
      assert.same({16, 10, 1, 12, 17}, {degree[1]:item(), degree[3]:item(), degree[12]:item(), degree[33]:item(),
         degree[34]:item()})
   end)

   it("reads collections of TU Dortmund", function()
      shell.with_folder(function(folder)
         shell.ok("mkdir -p " .. folder .. "/T/raw")
         local function file(name, text) write(("%s/T/raw/T_%s.txt"):format(folder, name), text) end
         file("A", "1, 2\n2, 1\n2, 3\n3, 2\n3, 3\n4, 5\n5, 4\n")
         file("graph_indicator", "1\n1\n1\n2\n2\n")
         file("graph_labels", "-1\n1\n")
         file("node_labels", "0\n1\n0\n2\n1\n")
         file("node_attributes", "0.5, 1\n1, 1\n2, 1\n3, 1\n4, 1\n")
         file("edge_labels", "1\n1\n2\n2\n1\n1\n1\n")
         local set = D.TUDataset(folder, "T")
         assert.equal(2, #set)
         assert.equal(2, set.num_classes)
         local first, second = set:get(1), set:get(2)
         assert.same({{1, 0, 0}, {0, 1, 0}, {1, 0, 0}}, first.x:tolist())
         assert.same({{1, 2, 2, 3}, {2, 1, 3, 2}}, first.edge_index:tolist())
         assert.same({{1, 0}, {1, 0}, {0, 1}, {0, 1}}, first.edge_attr:tolist())
         assert.same({{1, 2}, {2, 1}}, second.edge_index:tolist())
         assert.same({1, 2}, {first.y:item(), second.y:item()})
         local all = D.TUDataset(folder, "T", {use_node_attr = true})
         assert.same({{3, 1, 0, 0, 1}, {4, 1, 0, 1, 0}}, all:get(2).x:tolist())
         local batch
         for b in torch.graphs.loader.DataLoader(set, {batch_size = 2}):iter() do batch = b end
         assert.equal(5, batch.num_nodes)
         file("A", "1, 2\n2, x\n")
         assert.raises("T_A.txt:2: expected numbers, got \"x\"", function() D.TUDataset(folder, "T") end)
         file("A", "1, 9\n")
         assert.raises("T_A.txt: expected nodes from 1 to 5, got 9", function() D.TUDataset(folder, "T") end)
         assert.raises("graphs.datasets.TUDataset: there is no file", function() D.TUDataset(folder, "U") end)
      end)
   end)

   it("reads Planetoid's files, with the values that PyTorch Geometric prints (fixtures/planetoid.py)", function()
      local data = D.Planetoid("rocks/graphs/spec/fixtures/planetoid", "Cora"):get(1)
      assert.same({{77, 27, 0, 0}, {0, 0, 0, 0}, {0, 197, 26, 112}, {0, 27, 0, 105}, {23, 10, 0, 0}, {24, 126, 0, 156},
         {0, 33, 0, 11}, {24, 144, 88, 0}, {166, 58, 0, 0}}, data.x:tolist())
      assert.same({1, 3, 3, 3, 1, 1, 2, 2, 2}, data.y:tolist())
      assert.same({{1, 0, 2, 1, 8, 4, 3, 6, 5, 7, 6, 2}, {0, 1, 1, 2, 2, 3, 4, 5, 6, 6, 7, 8}},
         (data.edge_index - 1):tolist())
      assert.same({7, 8, 9}, data.test_mask:nonzero():view(-1):tolist())
      assert.same({1, 2, 3}, data.train_mask:nonzero():view(-1):tolist())
   end)

   it("reads strings in pickles of Python 2, and runs no code from a file", function()
      local pickle = require "tlua.graphs.pickle"
      shell.with_folder(function(folder)
         local path = folder .. "/p"
         write(path, "(dp1\nS'a\\\\x41\\x41\\n\\''\np2\nI7\nsI3\n(lp3\nI1\naL2L\nas.")
         local value = pickle.read("title", path, true)
         assert.equal(7, value["a\\x41A\n'"])
         assert.same({1, 2}, value[3])
         write(path, "cos\nsystem\n(S'true'\ntR.")
         assert.raises("title: " .. path .. ": os system is no array, matrix, list or dictionary",
            function() pickle.read("title", path) end)
         local whole = shell.read "rocks/graphs/spec/fixtures/planetoid/Cora/raw/ind.cora.x"
         for n = 0, #whole - 1, 7 do
            write(path, whole:sub(1, n))
            local ok, message = pcall(pickle.read, "title", path)
            assert.is_false(ok)
            assert.matches("title: ", message)
         end
      end)
   end)

   it("reads OGB's node datasets", function()
      shell.with_folder(function(folder)
         shell.ok(("mkdir -p %s/ogbn_t/raw %s/ogbn_t/split/time"):format(folder, folder))
         local function file(name, text) write(("%s/ogbn_t/%s.csv"):format(folder, name), text) end
         file("raw/edge", "0,1\n1,2\n")
         file("raw/num-node-list", "3\n")
         file("raw/node-feat", "0.5,1\n1,1\n2,1\n")
         file("raw/node-label", "0\n1\n1\n")
         file("split/time/train", "0\n")
         file("split/time/valid", "1\n")
         file("split/time/test", "2\n")
         local data = D.OGBNodePropPredDataset(folder, "ogbn-t", {split = "time"}):get(1)
         assert.same({{1, 2}, {2, 3}}, data.edge_index:tolist())
         assert.same({{1}, {2}, {2}}, data.y:tolist())
         assert.same({false, true, false}, data.val_mask:tolist())
         file("raw/edge", "0,3\n")
         assert.raises("expected nodes from 0 to 2, got 3", function() D.OGBNodePropPredDataset(folder, "ogbn-t") end)
         local function fails(message, name, text, right)
            file(name, text)
            assert.raises(message, function() D.OGBNodePropPredDataset(folder, "ogbn-t", {split = "time"}) end)
            file(name, right)
         end
         fails("raw/edge.csv: expected two numbers in each line", "raw/edge", "0\n1\n", "0,1\n1,2\n")
         fails("raw/edge.csv:1: expected integers, got \"0.5\"", "raw/edge", "0.5,1\n", "0,1\n1,2\n")
         fails("raw/node-label.csv: expected 3 lines, one for each node, got 1", "raw/node-label", "0\n", "0\n1\n1\n")
         fails("raw/node-feat.csv: expected 3 lines, one for each node, got 1", "raw/node-feat", "1,2\n",
            "0.5,1\n1,1\n2,1\n")
         fails("split/time/train.csv: expected nodes from 0 to 2", "split/time/train", "3\n", "0\n")
      end)
   end)

   it("names the file of TU Dortmund's format that does not fit the others", function()
      shell.with_folder(function(folder)
         shell.ok(("mkdir -p %s/T"):format(folder))
         local right <const> = {A = "1, 2\n2, 1\n3, 4\n", graph_indicator = "1\n1\n2\n2\n", graph_labels = "1\n-1\n"}
         local function read(changes)
            for _, name in ipairs {"A", "graph_indicator", "graph_labels", "node_labels", "edge_labels"} do
               local path, text = ("%s/T/T_%s.txt"):format(folder, name), changes[name] or right[name]
               if text then write(path, text) else os.remove(path) end
            end
            return D.TUDataset(folder, "T")
         end
         assert.equal(2, #read {})
         for message, changes in pairs {
            ["A.txt:1: expected an edge between nodes of the same graph"] = {A = "1, 3\n2, 1\n"},
            ["A.txt:1: expected integers, got \"1.5\""] = {A = "1.5, 2\n"},
            ["graph_indicator.txt: expected one number of a graph, from 1, in each line"] =
               {graph_indicator = "0\n1\n2\n2\n"},
            ["graph_indicator.txt: expected ascending numbers of graphs"] = {A = "1, 3\n",
               graph_indicator = "1\n2\n1\n2\n"},
            ["graph_labels.txt: expected 2 lines, one for each graph, got 1"] = {graph_labels = "1\n"},
            ["node_labels.txt: expected 4 lines, one for each node, got 1"] = {node_labels = "1\n"},
            ["edge_labels.txt: expected 3 lines, one for each edge, got 2"] = {edge_labels = "1\n2\n"},
         } do
            assert.raises(message, function() read(changes) end)
         end
      end)
   end)
end)
