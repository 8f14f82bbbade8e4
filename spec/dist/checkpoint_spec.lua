-- Tests distributed checkpoints that one set of ranks writes and a different set of ranks reads.

local torch = require "tlua"
local ranks = require "spec.dist.ranks"
local shell = require "spec.support.shell"

local code <const> = ranks.following "checkpoint"

local writer = [==[
   local model, adam = make(1, KIND)
   for _ = 1, 3 do step(model, adam) end
   adam.param_groups[1].lr = 0.005
   dcp.save({model = model, adam = adam, at = {step = 3, name = "x"}}, {checkpoint_id = ID})
]==]

local reader = [==[
   local model, adam = make(9, KIND)
   local alone, other = make(1)
   for _ = 1, 3 do step(alone, other) end
   other.param_groups[1].lr = 0.005
   local state = {model = model, adam = adam, at = {step = 0, name = ""}}
   dcp.load(state, {checkpoint_id = ID})
   check(3, state.at.step)
   check("x", state.at.name)
   local function compare(limit)
      local full = dcp.get_model_state_dict(model, {full_state_dict = true})
      for path, tensor in pairs(alone:state_dict()) do near(full[path], tensor, limit, path) end
   end
   compare(1e-5)
   -- training continues as if no checkpoint had been saved
   for _ = 1, 2 do step(model, adam) step(alone, other) end
   compare(1e-4)
]==]

local function with(text, kind, id)
   return ("KIND, ID = %s, %q "):format(kind and ("%q"):format(kind) or "nil", id) .. code(text)
end

describe("distributed.checkpoint", function()
   it("can be read with other numbers of ranks and other ways of splitting",
      function()
      local cases = {
         {4, "fsdp", {{2, "fsdp"}, {1, nil}, {2, "tp"}, {4, "both"}}},
         {2, "tp", {{2, "fsdp"}, {2, "zero"}}},
         {4, "both", {{2, "fsdp"}, {1, nil}}},
         {2, "zero", {{3, "fsdp"}, {3, "zero"}}},
         {1, nil, {{3, "fsdp"}, {2, "ddp"}}},
         {2, "ddp", {{1, nil}}},
      }
      for _, case in ipairs(cases) do
         shell.with_folder(function(folder)
            local id = folder .. "/a checkpoint"
            ranks.ok(case[1], with(writer, case[2], id))
            for _, read in ipairs(case[3]) do ranks.ok(read[1], with(reader, read[2], id)) end
         end)
      end
   end)

   it("is read into a model that was built and split on the meta device", function()
      local on_meta = reader:gsub("make%(9, KIND%)", "made_on_meta(9, KIND)")
      shell.with_folder(function(folder)
         local id = folder .. "/c"
         ranks.ok(4, with(writer, "fsdp", id))
         ranks.ok(2, with(on_meta, "fsdp", id))
         ranks.ok(1, with(on_meta, nil, id))
      end)
   end)

   it("writes each element once, and leaves one checkpoint in the folder", shell.in_folder(function(folder)
      local id = folder .. "/c"
      ranks.ok(4, with(writer .. [==[
            dcp.save({model = model}, {checkpoint_id = ID})
            if rank == 0 then
               local elements, expected = 0, 0
               for r = 0, 3 do
                  for _, t in pairs(torch.load(ID .. "/part2-" .. r .. ".safetensors")) do
                     elements = elements + t:numel()
                  end
               end
               for _, t in pairs(build(1):state_dict()) do expected = expected + t:numel() end
               check(expected, elements)
            end
         ]==], "both", id))
      local listing = shell.ok("ls " .. shell.quote(id))
      assert.equal("index.json\npart2-0.safetensors\npart2-1.safetensors\n" ..
         "part2-2.safetensors\npart2-3.safetensors\n", listing)
   end))

   it("leaves the old files if a rank cannot write", shell.in_folder(function(folder)
      local id = folder .. "/c"
      ranks.ok(2, with(writer .. [==[
            local before = io.open(ID .. "/index.json"):read "a"
            local save = torch.save
            if rank == 1 then torch.save = function() error("the disk is full", 0) end end
            refused("rank 1: the disk is full", dcp.save, {model = model}, {checkpoint_id = ID})
            torch.save = save
            check(before, io.open(ID .. "/index.json"):read "a")
            dcp.load({model = model, adam = adam}, {checkpoint_id = ID})
         ]==], "fsdp", id))
   end))

   it("is written by async_save in the background, with the values at the time of the call", function()
      for _, kind in ipairs {"fsdp", "zero"} do
         shell.with_folder(function(folder)
            local id = folder .. "/c"
            ranks.ok(2, with([==[
               local model, adam = make(1, KIND)
               for _ = 1, 3 do step(model, adam) end
               adam.param_groups[1].lr = 0.005
               local at = {step = 3, name = "x"}
               local future = dcp.async_save({model = model, adam = adam, at = at}, {checkpoint_id = ID})
               for _ = 1, 5 do step(model, adam) end
               at.step = 8
               check(nil, io.open(ID .. "/index.json"))
               refused("the result() of the save before was not asked for", dcp.async_save, {model = model},
                  {checkpoint_id = ID})
               future:result()
               check(true, future:done())
               future:result() -- a second call of result() has no effect
            ]==], kind, id))
            ranks.ok(2, with(reader, "tp", id))
            ranks.ok(1, with(reader, nil, id), {alone = true})
         end)
      end
   end)

   it("leaves the old files if a thread of async_save cannot write", shell.in_folder(function(folder)
      local id = folder .. "/c"
      ranks.ok(2, with(writer .. [==[
            local before = io.open(ID .. "/index.json"):read "a"
            if rank == 1 then os.execute(("mkdir -p '%s/part2-1.safetensors/x'"):format(ID)) end
            dist.barrier()
            local future = dcp.async_save({model = model}, {checkpoint_id = ID})
            refused("async_save: rank 1: ", future.result, future)
            check(before, io.open(ID .. "/index.json"):read "a")
            dcp.load({model = model, adam = adam}, {checkpoint_id = ID})
         ]==], "fsdp", id))
   end))

   it("is the previous one if a rank dies while it saves", shell.in_folder(function(folder)
      local id = folder .. "/c"
      local output, status = ranks.run(2, with(writer .. [==[
            local save = torch.save
            torch.save = function(...)
               save(...)
               if rank == 1 then os.exit(9) end
            end
            for _, p in ipairs(model:parameters()) do torch.no_grad(function() p:zero_() end) end
            dcp.save({model = model, adam = adam}, {checkpoint_id = ID})
         ]==], "fsdp", id))
      assert.equal(9, status, output)
      ranks.ok(3, with(reader, "fsdp", id))
   end))

   it("refuses state that does not fit, on every rank, and changes nothing", shell.in_folder(function(folder)
      ranks.ok(2, with(writer .. [==[
            local other = dist.fsdp.fully_shard(nn.Sequential(nn.Linear(6, 9)))
            local before = other[1].weight:detach():clone()
            refused("model.1.weight: expected shape (9, 6), got (10, 6)", dcp.load, {model = other},
               {checkpoint_id = ID})
            assert(before:equal(other[1].weight:detach()))
            refused("net.1.bias is missing", dcp.load, {net = model}, {checkpoint_id = ID})
            refused("No such file", dcp.load, {model = model}, {checkpoint_id = ID .. "x"})
            refused("its parameter 1 is in no module of the state", dcp.save, {adam = adam},
               {checkpoint_id = ID})
            refused("fn: function cannot be saved", dcp.save, {fn = print}, {checkpoint_id = ID})
            dist.barrier()
            if rank == 0 then
               local file = io.open(ID .. "/index.json", "w")
               file:write("{}")
               file:close()
            end
            dist.barrier()
            refused("not the index of a checkpoint", dcp.load, {model = model},
               {checkpoint_id = ID})
         ]==], "fsdp", folder .. "/c"))
   end))

   it("refuses an index with wrong entries, by the name of the tensor", shell.in_folder(function(folder)
      ranks.ok(1, with([==[
            local json = require "tlua.utils.json"
            local function state() return {w = torch.ones(4, 3), n = 1} end
            dcp.save(state(), {checkpoint_id = ID})
            local path = ID .. "/index.json"
            local file = assert(io.open(path, "rb"))
            local text = file:read "a"
            file:close()
            local lies = {
               function(w) w.shape = {4, 4} end, function(w) w.shape = "odd" end,
               function(w) w.shape[1] = "4" end, function(w) w.shape[1] = -4 end,
               function(w) w.dtype = "float-1" end, function(w) w.dtype = {} end,
               function(w) w.chunks = {} end, function(w) w.chunks[1] = 1 end,
               function(w) w.chunks[1].offset = {1, 0} end, function(w) w.chunks[1].offset = {0} end,
               function(w) w.chunks[1].size = {4, 9} end, function(w) w.chunks[1].size[2] = "3" end,
               function(w) w.chunks[1].name = nil end,
               function(w) w.chunks[1].file = "../" .. w.chunks[1].file end,
            }
            for i, lie in ipairs(lies) do
               local index = json.decode(text)
               lie(index.tensors.w)
               file = assert(io.open(path, "wb"))
               file:write(json.encode(index))
               file:close()
               refused("index.json: its entry w describes no tensor and its parts",
                  function() dcp.load(state(), {checkpoint_id = ID}) end)
            end
         ]==], "ddp", folder .. "/c"))
   end))

   it("gives and takes whole states", function()
      ranks.ok(4, code [==[
         local alone, model = build(1), split(build(1), "both")
         local state = dcp.get_model_state_dict(model, {full_state_dict = true})
         for path, tensor in pairs(alone:state_dict()) do near(state[path], tensor, 0, path) end
         local fresh = split(build(2), "both")
         dcp.set_model_state_dict(fresh, alone:state_dict(), {full_state_dict = true})
         state = dcp.get_model_state_dict(fresh, {full_state_dict = true})
         for path, tensor in pairs(alone:state_dict()) do near(state[path], tensor, 0, path) end
         state["1.weight"] = torch.ones(2)
         refused("1.weight: expected shape (10, 6), got (2)", dcp.set_model_state_dict, fresh,
            state, {full_state_dict = true})
         for _, p in ipairs(fresh[5]:parameters()) do p.requires_grad = false end
         state = dcp.get_model_state_dict(fresh, {ignore_frozen_params = true})
         check("nil nil tensor", ("%s %s %s"):format(state["5.weight"], state["5.bias"],
            torch.is_tensor(state["4.weight"]) and "tensor"))
      ]==])
   end)

   it("takes the states of split models as tables of tensors", function()
      for _, kind in ipairs {"fsdp", "tp", "both"} do
         for _, how in ipairs {"model:state_dict()", "dcp.get_model_state_dict(model)",
            "dcp.get_model_state_dict(model, {cpu_offload = true})"} do
            shell.with_folder(function(folder)
               local id = folder .. "/c"
               ranks.ok(2, ("local KIND, ID = %q, %q "):format(kind, id) .. code([==[
                  local model = split(build(1), KIND)
                  local adam = torch.optim.AdamW(model:parameters(), {lr = 0.02})
                  step(model, adam)
                  local options = {cpu_offload = ("HOW"):find "cpu" ~= nil}
                  dcp.save({model = HOW, optim = dcp.get_optimizer_state_dict(model, adam, options).state},
                     {checkpoint_id = ID})
                  local fresh = split(build(2), KIND)
                  local state = dcp.get_model_state_dict(fresh)
                  dcp.load({model = state}, {checkpoint_id = ID})
                  dcp.set_model_state_dict(fresh, state)
                  for i, p in ipairs(model:parameters()) do check(true, torch.equal(fresh:parameters()[i], p)) end
               ]==]):gsub("HOW", function() return how end))
               ranks.ok(1, ("local ID = %q "):format(id) .. code [==[
                  local alone, fresh = build(1), build(2)
                  local adam = torch.optim.AdamW(alone:parameters(), {lr = 0.02})
                  step(alone, adam)
                  local moments = {}
                  for path, p in alone:named_parameters() do moments[path] = {exp_avg = torch.zeros(p.shape)} end
                  dcp.load({model = fresh, optim = moments}, {checkpoint_id = ID})
                  local saved, at = fresh:state_dict(), 0
                  for path, tensor in pairs(alone:state_dict()) do near(saved[path], tensor, 1e-5, path) end
                  for path in alone:named_parameters() do
                     at = at + 1
                     near(moments[path].exp_avg, adam.state[at].exp_avg, 1e-5, path)
                  end
               ]==])
            end)
         end
      end
   end)

   it("gives whole states to rank 0 alone, and takes them from it", function()
      for _, kind in ipairs {"both", "fsdp", "ddp"} do
         ranks.ok(4, code(("local KIND = %q "):format(kind) .. [==[
            local alone = build(1)
            local theirs = torch.optim.AdamW(alone:parameters(), {lr = 0.02})
            step(alone, theirs)
            local model = split(build(1), KIND)
            local ours = torch.optim.AdamW(model:parameters(), {lr = 0.02})
            step(model, ours)
            local options = dcp.StateDictOptions {full_state_dict = true, cpu_offload = true}
            check(true, rawequal(dcp.state_dict.StateDictOptions, dcp.StateDictOptions))
            local weights, state = dcp.get_state_dict(model, ours, {options = options})
            if rank > 0 then
               check("nil nil", ("%s %s"):format(next(weights), next(state)))
            else
               near(weights["1.weight"], alone[1].weight, 1e-5)
               near(state.state["1.weight"].exp_avg, theirs.state[1].exp_avg, 1e-5)
               check({10, 6}, state.state["1.weight"].exp_avg.shape)
            end
            local fresh = split(build(5), KIND)
            local into = torch.optim.AdamW(fresh:parameters(), {lr = 1})
            options = dcp.StateDictOptions {full_state_dict = true, broadcast_from_rank0 = true}
            dcp.set_model_state_dict(fresh, weights, {options = options})
            dcp.set_optimizer_state_dict(fresh, into, state, {options = options})
            check(0.02, into.param_groups[1].lr)
            step(alone, theirs) step(fresh, into)
            near_model(fresh.module or fresh, alone, 1e-5)
            if rank == 0 then weights["1.weight"], weights.other = nil, torch.ones(1) end
            refused("1.weight", dcp.set_model_state_dict, fresh, weights, {options = options})
            options = dcp.StateDictOptions {full_state_dict = true, broadcast_from_rank0 = true,
               strict = false}
            dcp.set_model_state_dict(fresh, weights, {options = options})
            local set = dcp.set_model_state_dict
            refused("broadcast_from_rank0: rank 0 gives whole tensors; give full_state_dict", set,
               fresh, weights, {broadcast_from_rank0 = true})
            refused("strict is given by itself and in options", set, fresh, weights,
               {strict = true, options = options})
            refused("options: expected StateDictOptions, got an instance of", set, fresh, weights,
               {options = fresh})
            refused("unknown option full_state; did you mean", dcp.StateDictOptions,
               {full_state = true})
            local default = dcp.StateDictOptions {keep_submodule_prefixes = true,
               flatten_optimizer_state_dict = false, dsd_fqn_modifiers = "_fqn_modifiers"}
            check(true, default.strict)
            refused("keep_submodule_prefixes: expected true, got false: paths begin at the model",
               dcp.StateDictOptions, {keep_submodule_prefixes = false})
            refused("flatten_optimizer_state_dict: expected false, got true: the state of an",
               dcp.StateDictOptions, {flatten_optimizer_state_dict = true})
            refused("dsd_fqn_modifiers: expected _fqn_modifiers, got other: modules have no",
               dcp.StateDictOptions, {dsd_fqn_modifiers = "other"})
         ]==]))
      end
   end)

   -- The reference is a training by the same optimizers in one process: their states, and the results of their next
   -- step.
   it("gives and takes whole states of optimizers, by the paths of parameters", function()
      for _, kind in ipairs {"both", "ddp"} do
         ranks.ok(4, code(("local KIND = %q "):format(kind) .. [==[
            local function two(model)
               local list = model:parameters()
               return {
                  torch.optim.AdamW({{params = {table.unpack(list, 1, 2)}}, {
                     params = {table.unpack(list, 3, #list - 2)}, lr = 0.05}}, {lr = 0.01}),
                  torch.optim.SGD({table.unpack(list, #list - 1)}, {lr = 0.1, momentum = 0.9}),
               }
            end
            local function train(model, optimizers, n)
               for _ = 1, n do
                  model:zero_grad()
                  ;((model(x) - y) ^ 2):mean():backward()
                  for _, optimizer in ipairs(optimizers) do optimizer:step() end
               end
            end
            local alone, model, full = build(1), split(build(1), KIND), {full_state_dict = true}
            local theirs, ours = two(alone), two(model)
            train(alone, theirs, 3) train(model, ours, 3)
            local weights, state = dcp.get_state_dict(model, ours, full)
            local expected_weights, expected = dcp.state_dict.get_state_dict(alone, theirs)
            local function compare()
               local names = {}
               for path, p in alone:named_parameters() do
                  names[#names + 1] = path
                  near(weights[path], p, 1e-5, path)
                  for key, value in pairs(expected.state[path]) do
                     local got = state.state[path][key]
                     if torch.is_tensor(value) then near(got, value, 1e-5, path .. key)
                     else check(value, got) end
                  end
               end
               check({2, 4, 2}, {#state.param_groups[1].params, #state.param_groups[2].params,
                  #state.param_groups[3].params})
               check(names, table.move(state.param_groups[3].params, 1, 2, 7, table.move(
                  state.param_groups[2].params, 1, 4, 3, state.param_groups[1].params)))
               check({0.01, 0.05, 0.9}, {state.param_groups[1].lr, state.param_groups[2].lr,
                  state.param_groups[3].momentum})
            end
            compare()
            near(expected.state["1.weight"].exp_avg, theirs[1].state[1].exp_avg, 0)
            -- Other optimizers load the state, and must then make the same steps as the optimizers that saved it.
            local fresh = split(build(5), KIND)
            local into = two(fresh)
            into[1].param_groups[2].lr = 1
            dcp.set_state_dict(fresh, into, {model_state_dict = expected_weights,
               optim_state_dict = expected, full_state_dict = true})
            weights, state = dcp.get_state_dict(fresh, into, full)
            compare()
            train(alone, theirs, 1) train(fresh, into, 1)
            near_model(fresh.module or fresh, alone)
            -- An optimizer can also load only the part of the state that belongs to its rank.
            local parts = dcp.get_optimizer_state_dict(model, ours, {cpu_offload = true})
            dcp.set_optimizer_state_dict(model, ours, parts)
            check(true, ours[1].state[1].exp_avg:equal(parts.state["1.weight"].exp_avg))
            local set = dcp.set_optimizer_state_dict
            refused("optimizers: expected an optimizer or a list of them, got 3", set, model, 3, parts)
            refused("optimizers: parameter 1 of optimizer 1 is not one of the model's", set, build(1), ours,
               parts)
            refused("optim_state_dict: expected a result of get_optimizer_state_dict", set, model, ours, {})
            table.remove(expected.param_groups[1].params)
            refused("no group has the parameter ", set, model, ours, expected, full)
            expected = dcp.get_optimizer_state_dict(alone, theirs)
            expected.state["1.weight"].exp_avg = torch.zeros(6, 10)
            refused("1.weight: expected shape (10, 6), got (6, 10)", set, model, ours, expected, full)
            local zero = dist.optim.ZeroRedundancyOptimizer(alone:parameters(),
               {optimizer_class = torch.optim.AdamW, lr = 0.01})
            refused("has the state of each parameter on one rank", dcp.get_optimizer_state_dict, alone,
               zero)
         ]==]))
      end
   end)
end)

describe("boxes", function()
   local boxes = require("tlua").distributed.checkpoint._boxes

   it("hold a range of a box's elements, each once, in their order", function()
      for _, size in ipairs {{7}, {3, 4}, {2, 3, 4}, {1, 5, 1, 2}, {}} do
         local n = boxes.product(size)
         for first = 0, n - 1 do
            for count = 0, n - first do
               local at = first
               for _, box in ipairs(boxes.of_range({}, size, first, count)) do
                  local flat = 0
                  for d, s in ipairs(size) do flat = flat * s + box.offset[d] end
                  assert.equal(at, flat)
                  at = at + boxes.product(box.size)
                  -- The elements of a box are adjacent in memory. Therefore, after the first dimension in which the
                  -- box has more than one row, it must contain each dimension as a whole.
                  local open = false
                  for d, s in ipairs(size) do
                     if open then assert.equal(s, box.size[d]) end
                     open = open or box.size[d] > 1
                  end
               end
               assert.equal(first + count, at)
            end
         end
      end
   end)
end)

describe("parts of a save that was killed", function()
   local function listing(id) return shell.ok("ls -A " .. shell.quote(id)) end

   -- The script saves a checkpoint. It is killed when all data files are written, before the new index replaces the old
   -- one.
   local killed <const> = [==[
      local torch = require "tlua"
      local writer = require "tlua.distributed.checkpoint.files"
      writer.commit = function() os.execute "kill -9 $PPID" end
      torch.distributed.checkpoint.save({a = torch.ones(3)}, {checkpoint_id = arg[1]})
   ]==]

   it("are removed by the next save, and the earlier checkpoint stays valid", shell.in_folder(function(folder)
      local id, dcp = folder .. "/c", torch.distributed.checkpoint
      dcp.save({a = torch.zeros(3)}, {checkpoint_id = id})
      shell.write(folder .. "/killed.lua", killed)
      for _ = 1, 2 do
         local output, status = shell.run(("%s %s %s"):format(shell.start(),
            shell.quote(folder .. "/killed.lua"), shell.quote(id)))
         assert.equal(137, status, output)
      end
      shell.write(id .. "/part7-3.safetensors", "of more ranks")
      shell.write(id .. "/mine.safetensors", "another file")
      assert.matches("part2-0.safetensors\npart3-0.safetensors\n", listing(id), 1, true)
      local state = {a = torch.ones(3)}
      dcp.load(state, {checkpoint_id = id})
      assert.same({0, 0, 0}, state.a:tolist())
      dcp.save({a = torch.full({3}, 5)}, {checkpoint_id = id})
      assert.equal("index.json\nmine.safetensors\npart8-0.safetensors\n", listing(id))
      dcp.load(state, {checkpoint_id = id})
      assert.same({5, 5, 5}, state.a:tolist())
   end))

   it("stay while their writer lives", shell.in_folder(function(folder)
      local id, dcp = folder .. "/c", torch.distributed.checkpoint
      local future = dcp.async_save({a = torch.ones(3)}, {checkpoint_id = id})
      while not future:done() do end
      assert.matches("^%.tlua%-[^\n]+%.tmp\npart1%-0", listing(id))
      shell.write(folder .. "/other.lua",
         "torch.distributed.checkpoint.save({a = torch.zeros(3)}, {checkpoint_id = arg[1]})")
      shell.ok(("%s %s %s"):format(shell.start(), shell.quote(folder .. "/other.lua"), shell.quote(id)))
      assert.matches("index.json\npart1-0.safetensors\npart2-0.safetensors\n", listing(id), 1, true)
      future:result()
      assert.equal("index.json\npart1-0.safetensors\n", listing(id))
      local state = {a = torch.zeros(3)}
      dcp.load(state, {checkpoint_id = id})
      assert.same({1, 1, 1}, state.a:tolist())
   end))
end)
