-- Tests malicious checkpoints, which this spec builds. A file must not run code. The time and memory that it takes must
-- be in proportion to its size. It must not cause an internal Lua error.

local torch = require "tlua"
local pickle = require "tlua.io.pickle"
local shell = require "spec.support.shell"
local source = require "tlua.io.source"
local zip = require "tlua.io.zip"

local function bytes_of(text) return torch.frombuffer(text, {dtype = "uint8"}) end

-- Returns a tensor of ones. It takes the place of a storage that would be read from an archive.
local function ones(_, dtype, n) return torch.ones({n}, {dtype = dtype}) end

-- Runs a pickle. Returns its result, or nil and the error message if the error is in the file. Raises all other errors.
local function run(text, storage) return source.protect(pickle.run, bytes_of("\x80\2" .. text), storage or ones) end

local function refused(message, text, storage)
   local result, why = run(text, storage)
   assert.is_nil(result)
   assert.matches(message, why, 1, true)
end

-- Returns how many thousands of Lua instructions a call executes.
local function work_of(fn)
   local count = 0
   debug.sethook(function() count = count + 1 end, "", 1000)
   fn()
   debug.sethook()
   return count
end

local ordered <const> = "ccollections\nOrderedDict\n"
local rebuild <const> = "ctorch._utils\n_rebuild_tensor_v2\n"
local storage <const> = "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuK\4tQ"

describe("a pickle", function()
   it("gives plain data and tensors", function()
      assert.same({1, 2.5, "x", true}, run "](K\1G\x40\4\0\0\0\0\0\0X\1\0\0\0x\x88e.")
      assert.same({[0] = "a", b = false}, run "}(K\0X\1\0\0\0aX\1\0\0\0b\x89u.")
      assert.same({a = 1}, run(ordered .. "](X\1\0\0\0aK\1\x86e\x85R."))
      assert.same({a = 2}, run "ccollections\nCounter\n}X\1\0\0\0aK\2s\x85R.")
      assert.same({1, 2}, run "c__builtin__\nset\n](K\1K\2e\x85R.")
      assert.equal("\255\0", run "c_codecs\nencode\nX\3\0\0\0\u{ff}\0X\6\0\0\0latin1\x86R.")
      assert.equal(torch.device "cuda:1", run "ctorch\ndevice\nX\4\0\0\0cudaK\1\x86R.")
      assert.same({{1, 1}, {1, 1}}, run(rebuild .. "(" .. storage .. "K\0K\2K\2\x86K\2K\1\x86\x89"
         .. ordered .. ")RtR."):tolist())
      assert.is_nil(run "N.")
   end)

   it("negates a view that is marked as negative", function()
      local marked = rebuild .. "(" .. storage .. "K\0K\2\x85K\1\x85\x89" .. ordered .. ")R}"
         .. "X\3\0\0\0neg%ss" .. "tR."
      assert.same({-1, -1}, run(marked:format "\x88"):tolist())
      assert.same({1, 1}, run(marked:format "\x89"):tolist())
   end)

   it("gives parameters and leaves that require gradients", function()
      local tensor = rebuild .. "(" .. storage .. "K\0K\4\x85K\1\x85%s" .. ordered .. ")RtR"
      assert.is_true(run(tensor:format "\x88" .. ".").requires_grad)
      local parameter = run("ctorch._utils\n_rebuild_parameter\n(" .. tensor:format "\x89" .. "\x88"
         .. ordered .. ")RtR.")
      assert.is_true(parameter.is_parameter and parameter.requires_grad and parameter.is_leaf)
      refused("a tensor of int64 requires a gradient", tensor:gsub("Float", "Long"):format "\x88" .. ".")
   end)

   it("records the kind of a table if its keys do not show it", function()
      local writer = require "tlua.io.pickle_writer"
      for _, text in ipairs {"}(K\1X\1\0\0\0aK\2X\1\0\0\0bu.", "].", "}.", "](K\1K\2e."} do
         local value = run(text)
         local again = source.protect(pickle.run, bytes_of(writer.encode(value)), ones)
         assert.same(value, again)
         assert.equal(text:sub(1, 1), writer.encode(again):sub(3, 3))
      end
   end)
end)

describe("a malicious pickle", function()
   it("calls only constructors of data", function()
      refused("the class os.system is refused", "cos\nsystem\nX\4\0\0\0echo\x85R.")
      refused("the class builtins.eval is refused", "X\x08\0\0\0builtinsX\4\0\0\0eval\x93X\1\0\0\0001\x85R.")
      refused("the class string.format is refused", "cstring\nformat\n)R.")
      refused("calls a value that is not a class", "X\1\0\0\0x)R.")
      refused("calls a value that is not a class", "})R.")
      refused("name of a class is not text", "K\1K\2\x93.")
      -- the arguments of a call must be a tuple, not a list
      refused("calls a value that is not a class", ordered .. "]R.")
   end)

   it("cannot pass off a dictionary as a class, a function or a storage", function()
      local function posing(key, value) return "}X" .. ("<s4"):pack(key) .. value .. "s" end
      local text = "X\1\0\0\0x"
      refused("calls a value that is not a class", posing("call", text) .. ")R.")
      refused("puts a class or a storage where data are expected", posing("call", ordered) .. ")R.")
      refused("a storage of an unknown kind", "(X\7\0\0\0storage" .. posing("dtype", "X\7\0\0\0float32")
         .. "X\1\0\0\0000X\3\0\0\0cpuK\4tQ.")
      for _, inner in ipairs {text, "K\1", "]", "}", "N"} do
         refused("a tensor has no storage", rebuild .. "(" .. posing("storage", inner) .. "K\0K\1\x85K\1\x85\x89NtR.")
      end
      refused("a tensor has no storage", rebuild .. "(X\1\0\0\0xK\0))\x89NtR.")
      refused("a tensor has no storage", rebuild .. ")R.")
      refused("a parameter is not a tensor", "ctorch._utils\n_rebuild_parameter\n(}\x88NtR.")
   end)

   it("gives no class, function or storage in its result", function()
      local message <const> = "puts a class or a storage where data are expected"
      for _, inner in ipairs {ordered, "ctorch\nFloatStorage\n", storage, "ctorch\nTensor\n"} do
         refused(message, inner .. ".")
         refused(message, "]" .. inner .. "a.")
         refused(message, "](" .. inner .. "e.")
         refused(message, "}K\1" .. inner .. "s.")
         refused(message, "}(" .. inner .. "K\1u.")
         refused(message, inner .. "\x85.")
         refused(message, inner .. "\x85\x85\x85.")
         refused(message, "]" .. inner .. "\x85a.")
         refused(message, "]" .. inner .. "K\1\x86\x85a.")
         refused(message, ordered .. "]K\1" .. inner .. "\x86a\x85R.")
      end
      -- this pickle adds items to a tuple
      refused("adds items to a value that is not a list", ")K\1a.")
      refused("adds items to a value that is not a dict", "]K\1K\2s.")
      refused("adds items to a value that is not a list", storage .. "K\1a.")
   end)

   it("may copy a list only as often as its length allows", function()
      -- This pickle makes an OrderedDict repeatedly from the same long list. Each copy takes only three bytes of the
      -- file.
      local entries <const> = 3000
      local function bomb(copies)
         return ordered .. "q\0](" .. ("K\1K\1\x86"):rep(entries) .. "eq\1" .. ("h\0h\1\x85R0"):rep(copies) .. "N."
      end
      -- the limit on memory is proportional to the size of the file
      assert.is_nil(select(2, run(bomb(3))))
      local used = collectgarbage "count"
      local work = work_of(function() refused("the pickle copies more than its", bomb(20000)) end)
      -- `work` counts thousands of instructions. If copying were not limited, this pickle would copy a list of 3,000
      -- entries 20,000 times, and `work` would exceed 300,000.
      assert.truthy(work < 20000, work)
      assert.truthy(collectgarbage "count" - used < 50000)
      -- This pickle converts the same text to bytes many times.
      local text = ("x"):rep(5000)
      refused("the pickle copies more than its", "c_codecs\nencode\nq\0X" .. ("<s4"):pack(text) .. "q\1N\x86q\2"
         .. ("h\0h\2R0"):rep(10) .. "N.")
   end)

   it("takes time in proportion to its length, whatever it repeats", function()
      local pieces = {
         ")", "}", "]", "K\1", "h\0", "h\0\x85", "(t", "(N" .. "t0", "N\x85", "h\1h\0\x85R", "h\0q\2",
         "}h\0N" .. "s0", "](h\0h\0" .. "e0",
      }
      for _, piece in ipairs(pieces) do
         local function work(n)
            local text = "]q\0" .. ordered .. "q\1" .. piece:rep(n // #piece) .. "N."
            return work_of(function() run(text) end) / n
         end
         local few, many = work(20000), work(160000)
         assert.truthy(many < 2 * few + 0.01, piece)
         -- if a loop in Lua converted the bytes, the call would execute far more instructions
         assert.truthy(many < 1, piece)
      end
   end)

   it("may nest deeply and contain itself", function()
      local deep = run(("]"):rep(50000) .. ("a"):rep(49999) .. ".")
      assert.equal(1, #deep)
      local loop = run "]q\0h\0a."
      assert.equal(loop, loop[1])
   end)

   it("gives no tensor outside its storage, and none that is too large", function()
      local function tensor(offset, size, stride)
         local function tuple(list)
            local text = "("
            for _, n in ipairs(list) do text = text .. "\x8a\8" .. ("<i8"):pack(n) end
            return text .. "t"
         end
         return rebuild .. "(" .. storage .. "\x8a\8" .. ("<i8"):pack(offset) .. tuple(size)
            .. tuple(stride) .. "\x89NtR."
      end
      assert.same({{1, 1}, {1, 1}}, run(tensor(0, {2, 2}, {2, 1})):tolist())
      assert.same({0, 1 << 40}, run(tensor(9, {0, 1 << 40}, {1, 1})).shape)
      refused("lies outside of its storage of 4 elements", tensor(1, {4}, {1}))
      refused("lies outside of its storage", tensor(4, {}, {}))
      refused("lies outside of its storage of 4 elements", tensor(0, {2, 2}, {1 << 52, 1}))
      refused("lies outside of its storage of 4 elements", tensor(0, {1 << 52, 1 << 52}, {1 << 52, 1}))
      refused("a tensor is too large", tensor(0, {1 << 30, 1 << 30, 1 << 30}, {0, 0, 0}))
      refused("a tensor's size has an impossible number", tensor(0, {-1}, {1}))
      refused("a tensor's stride has an impossible number", tensor(0, {1}, {math.mininteger}))
      refused("a tensor's geometry makes no sense", tensor(-1, {1}, {1}))
      refused("a tensor's geometry makes no sense", tensor(0, {1}, {1, 1}))
      refused("a tensor's size is no tuple", tensor(0, table.move({}, 1, 0, 1, {1, 1, 1, 1, 1, 1, 1, 1, 1,
         1, 1, 1, 1, 1, 1, 1, 1}), {1}))
      refused("a storage has no length", (storage:gsub("K\4t", "J\xff\xff\xff\xfft")) .. ".")
   end)

   it("is refused if it ends early or takes too much memory", function()
      for _, text in ipairs {"", "a.", "s.", "u.", "t.", "R.", "Q.", "0.", "h\0.", "q\0.", ".", "(.", "](a.",
         "(q\0.", "K", "X\255\255\255\255", "\x8d" .. ("<i8"):pack(-1), "\x8a\x09123456789.", "c\n\n.",
         "c" .. ("x"):rep(300), "}(K\1u.", "}NK\1s.", "\x01.", "K\1\x86."} do
         local ok, result, why = pcall(run, text)
         assert.is_true(ok, result)
         assert.is_nil(result)
         assert.equal("string", type(why), text)
      end
   end)
end)

describe("a checkpoint's archive", function()
   local path
   before_each(function() path = os.tmpname() .. ".pt" end)
   after_each(function() os.remove(path) end)

   local function write(files, compress)
      local file <close> = assert(io.open(path, "wb"))
      local archive = zip.new(file)
      for _, entry in ipairs(files) do
         archive:add(entry[1], entry[2], torch.empty({0}, {dtype = "uint8"}), compress)
      end
      archive:finish()
   end

   it("is refused if it is compressed, since it may expand a thousand times", function()
      write({{"a/data.pkl", "\x80\2" .. ("]0"):rep(500000) .. "N."}}, true)
      assert.truthy(#shell.read(path) < 10000)
      assert.raises(path .. ": data.pkl is packed; expected files that are stored", function() torch.load(path) end)
   end)

   it("is refused if it describes a storage in two ways", function()
      local other = storage:gsub("Float", "Half")
      local tensor = "(%sK\0K\1\x85K\1\x85\x89NtR"
      write {{"a/data.pkl", "\x80\2]" .. rebuild .. tensor:format(storage) .. "a" .. rebuild
         .. tensor:format(other) .. "a."}, {"a/data/0", ("\0"):rep(16)}}
      assert.raises("the storage 0 is described in two ways", function() torch.load(path) end)
   end)

   it("is refused if a storage is missing or too short", function()
      local text = "\x80\2" .. rebuild .. "(" .. storage .. "K\0K\1\x85K\1\x85\x89NtR."
      write {{"a/data.pkl", text}}
      assert.raises(path .. ": the storage 0 is missing", function() torch.load(path) end)
      write {{"a/data.pkl", text}, {"a/data/0", ("\0"):rep(15)}}
      assert.raises(path .. ": expected more bytes", function() torch.load(path) end)
      write {{"a/data.pkl", text}, {"a/data/0", ("<f"):rep(4):pack(1, 2, 3, 4)}}
      assert.same({1}, torch.load(path):tolist())
   end)
end)

-- SPEC_MUTATIONS=10000 makes this test run 10,000 random pickles.
it("a pickle of random steps gives data or an error", function()
   local seed = 11
   local function random(n) -- the random numbers are the same in every run
      seed = (seed * 6364136223846793005 + 1442695040888963407) & math.maxinteger
      return (seed >> 33) % n
   end
   local pieces = {
      "(", "(", ")", "]", "}", "N", "\x88", "K\1", "K\2", "X\1\0\0\0x", "a", "e", "s", "u", "t", "\x85", "\x86",
      "\x87", "q\0", "q\1", "h\0", "h\1", "\x94", "0", "R", "R", "Q", "b", "\x81", "\x8f", "\x90", ordered, rebuild,
      storage, "ctorch\nSize\n", "ctorch\ndevice\n", "c_codecs\nencode\n", "ctorch\nFloatStorage\n",
      "ctorch._utils\n_rebuild_parameter\n", "ctorch._tensor\n_rebuild_from_type_v2\n",
      "ccollections\nCounter\n", rebuild .. "(" .. storage .. "K\0K\1\x85K\1\x85\x89NtR",
   }
   local made, faults = 0, 0
   local function check(value, depth)
      local kind = type(value)
      assert.truthy(kind ~= "function" and kind ~= "thread", kind)
      if kind ~= "table" or depth > 20 then return end
      local name = (getmetatable(value) or {}).__name
      assert.truthy(name == nil or name == "io.dict" or name == "json.array", name)
      for key, item in pairs(value) do
         check(key, depth + 1)
         check(item, depth + 1)
      end
   end
   for _ = 1, tonumber(os.getenv "SPEC_MUTATIONS") or 3000 do
      local text = {}
      for i = 1, random(30) do text[i] = pieces[random(#pieces) + 1] end
      local value, why = run(table.concat(text) .. ".")
      if why then faults = faults + 1 else made = made + 1 end
      check(value, 0)
   end
   assert.truthy(made > 50 and faults > 50, made)
end)
