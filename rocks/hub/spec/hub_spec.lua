-- Tests torch.hub with damaged files, and with a local server (server.lua) that breaks connections, sends wrong headers
-- and stalls.

local torch = require "tlua"
local shell = require "spec.support.shell"
local json = torch.utils.json
local safetensors = require "tlua.io.safetensors"
local hub, nn = torch.hub, torch.nn

local COMMIT <const> = ("0123456789"):rep(4)
local base -- the server's URL
local folder, log -- the server's folder, and a function that returns the requests that the server has received

-- Returns a test that runs fn(folder) while a server runs and the cache is empty.
local function served(fn)
   return function()
      shell.with_folder(function(place)
         folder = place .. "/files"
         shell.ok("mkdir -p " .. folder)
         local pipe <close> = assert(io.popen(("exec %s rocks/hub/spec/server.lua %s %s/log"):format(
            shell.start(), folder, place)))
         base = "http://127.0.0.1:" .. pipe:read "l"
         function log()
            local list = {}
            for line in io.lines(place .. "/log") do list[#list + 1] = line end
            return list
         end
         hub.set_dir(place .. "/cache")
         local ok, message = pcall(fn, place)
         pcall(require "tlua.utils.http".request, "GET", base .. "/stop")
         if not ok then error(message, 0) end
      end)
   end
end

local sum = torch.io._sha256

-- Returns n bytes in which no block repeats: the SHA-256 sums of "1", "2" and so on.
local function noise(n)
   local parts = {}
   for i = 1, n // 64 + 1 do parts[i] = sum(tostring(i)) end
   return table.concat(parts):sub(1, n)
end

local function write_tensors(path, tensors, metadata)
   local list = {}
   for name, tensor in pairs(tensors) do list[#list + 1] = {name = name, tensor = tensor} end
   local file <close> = assert(io.open(path, "wb"))
   assert.is_nil(safetensors.write(file, list, metadata or {}))
end

-- Calls a function that must fail. Returns its error message, without the line of this file at its beginning.
local function failure(fn, ...)
   local ok, message = pcall(fn, ...)
   assert.is_false(ok)
   return (tostring(message):gsub("^[^\n]-:%d+: ", ""))
end

-- Calls fn while sleeping takes no time: a pause only moves the clock forward. Returns the lengths of the pauses in
-- seconds.
local function without_pauses(fn)
   local sleep, clock, pauses, moved = torch.distributed._sleep, torch.io.clock, {}, 0
   local _ <close> = setmetatable({}, {__close = function()
      torch.distributed._sleep, torch.io.clock = sleep, clock
   end})
   function torch.distributed._sleep(seconds)
      pauses[#pauses + 1], moved = seconds, moved + seconds
   end
   function torch.io.clock() return clock() + moved end
   fn()
   return pauses
end

local function fetch(path, target, options) return hub.download_url_to_file(base .. path, target, options) end

local function exists(path)
   local file <close> = io.open(path, "rb")
   return file ~= nil
end

describe("hub.download_url_to_file", function()
   local text <const> = noise(300000)
   local function has_data() shell.write(folder .. "/data", text) end

   -- Downloads the test's file by a URL with the given prefix, which makes the server misbehave, and checks the file.
   local function whole(place, prefix, options)
      has_data()
      assert.equal(sum(text), fetch(prefix .. "/data", place .. "/x", options))
      assert.is_true(shell.read(place .. "/x") == text)
      assert.is_false(exists(place .. "/x.part"))
      assert.is_false(exists(place .. "/x.part.tag"))
   end

   it("writes the file and returns its checksum", served(function(place)
      whole(place, "", {hash_prefix = sum(text):sub(1, 8):upper()})
      shell.write(folder .. "/empty", "")
      assert.equal(sum "", fetch("/empty", place .. "/y"))
   end))

   it("requests the missing bytes after a broken connection", served(function(place)
      whole(place, "/cut/70000")
      local ranges = {}
      for i, line in ipairs(log()) do ranges[i] = line:match "^GET %S+ (%S+)" end
      assert.same({"-", "bytes=70000-", "bytes=140000-", "bytes=210000-", "bytes=280000-"}, ranges)
   end))

   it("refuses files of more than max_bytes, whether the server tells the size or not", served(function(place)
      has_data()
      whole(place, "/endless", {max_bytes = 300000})
      for _, prefix in ipairs {"", "/endless"} do
         assert.equal(("hub.download_url_to_file: %s%s/data: the file has more than 1000 bytes; the option "
            .. "max_bytes allows more"):format(base, prefix),
            failure(fetch, prefix .. "/data", place .. "/y", {max_bytes = 1000}))
         assert.is_false(exists(place .. "/y") or exists(place .. "/y.part"))
      end
      -- The bytes that are there already count towards the largest size, too.
      shell.write(place .. "/y.part", text:sub(1, 1000))
      local _, message = pcall(fetch, "/data", place .. "/y", {max_bytes = 299999, hash_prefix = sum(text)})
      assert.matches("more than 299999 bytes", message, 1, true)
      assert.equal(sum(text), fetch("/data", place .. "/y", {max_bytes = 300000}))
      local _, wrong = pcall(hub.load, base .. "/data", {max_bytes = 10})
      assert.matches("the file has more than 10 bytes", wrong, 1, true)
      assert.equal("hub.load: max_bytes: expected an integer of at least 0, got -1",
         failure(hub.load, "a/b", {max_bytes = -1}))
   end))

   it("starts again if the server cannot send a part, or has another file", served(function(place)
      has_data()
      for _, prefix in ipairs {"/plain", "/swap", "/notag", "/wrong"} do
         shell.write(place .. "/x.part", ("?"):rep(1000))
         shell.write(place .. "/x.part.tag", '"old"')
         whole(place, prefix)
      end
      -- Without a file that has their version, the version of these bytes is unknown.
      shell.write(place .. "/x.part", ("?"):rep(1000))
      whole(place, "")
      shell.write(place .. "/x.part", ("?"):rep(400000)) -- this unfinished file is longer than the file on the server
      shell.write(place .. "/x.part.tag", '"' .. sum(text):sub(1, 16) .. '"')
      whole(place, "")
   end))

   it("discards an unfinished file that does not lead to the right checksum", served(function(place)
      has_data()
      shell.write(place .. "/x.part", ("?"):rep(1000))
      whole(place, "", {hash_prefix = sum(text)})
      shell.write(place .. "/x.part", text:sub(1, 1000))
      whole(place, "", {hash_prefix = sum(text)})
      assert.matches("bytes=1000%-", table.concat(log(), "\n"))
      shell.write(place .. "/x.part", text) -- the unfinished file already has all bytes
      whole(place, "", {hash_prefix = sum(text)})
   end))

   it("tries again after temporary errors, and follows redirects", served(function(place)
      whole(place, "/flaky/2")
      whole(place, "/hop/9")
   end))

   it("refuses a file with another checksum, and leaves nothing", served(function(place)
      has_data()
      local expected = ("hub.download_url_to_file: %s/data: SHA-256: expected 00000000, got %s"):format(base,
         sum(text):sub(1, 8))
      assert.equal(expected, failure(fetch, "/data", place .. "/x", {hash_prefix = "00000000"}))
      assert.is_false(exists(place .. "/x"))
      assert.is_false(exists(place .. "/x.part"))
      shell.write(place .. "/x", "old")
      failure(fetch, "/data", place .. "/x", {hash_prefix = "00000000"})
      assert.equal("old", shell.read(place .. "/x"))
   end))

   it("reports missing files, wrong headers, stalled answers and endless redirects", served(function(place)
      has_data()
      local x = place .. "/x"
      assert.matches("/none: the server answers 404$", failure(fetch, "/none", x))
      assert.matches("/status/403/data: the server answers 403$", failure(fetch, "/status/403/data", x))
      without_pauses(function()
         assert.matches("/loop/data: .*more than 10 redirects$", "/loop/data: " .. failure(fetch, "/loop/data", x))
      end)
      assert.matches("/packed/data: the server answers with the encoding gzip$", failure(fetch, "/packed/data", x))
      assert.is_false(exists(x .. ".part"))
      without_pauses(function()
         assert.matches("no answer in time, which is 0.1 seconds$",
            failure(fetch, "/silent/1/data", x, {timeout = 0.1}))
         assert.matches("the answer ends early, after %d+ bytes$", failure(fetch, "/liar/notag/data", x))
      end)
      assert.is_false(exists(x))
      assert.same({0.8}, without_pauses(function()
         assert.matches("no connection to 127.0.0.1:1: ",
            failure(hub.download_url_to_file, "http://127.0.0.1:1/data", x, {timeout = 0.2}))
      end))
   end))

   it("reports a full disk, and continues once there is room", served(function(place)
      has_data()
      shell.write(place .. "/fetch.lua", ("torch.hub.download_url_to_file(%q, %q)"):format(base .. "/data",
         place .. "/x"))
      local output, status = shell.run(("(ulimit -f 100; exec %s %s/fetch.lua)"):format(shell.start(), place))
      assert.equal(1, status, output)
      assert.matches("hub.download_url_to_file: " .. place:gsub("%p", "%%%0") .. "/x.part: File too large", output)
      assert.is_false(exists(place .. "/x"))
      assert.is_true(#shell.read(place .. "/x.part") > 10000)
      whole(place, "")
      assert.matches("bytes=%d+%-", log()[2])
   end))

   it("continues the file of a killed process", served(function(place)
      has_data()
      shell.write(place .. "/fetch.lua", ("torch.hub.download_url_to_file(%q, %q)"):format(base .. "/drip/9000/data",
         place .. "/x"))
      shell.run(("timeout -s KILL 1 %s %s/fetch.lua"):format(shell.start(), place))
      local had = #shell.read(place .. "/x.part")
      assert.is_true(had > 0 and had < #text)
      whole(place, "")
      local last = log()
      assert.equal(had, tonumber(last[#last]:match "bytes=(%d+)%-"))
   end))

   it("fetches a file once for three processes", served(function(place)
      has_data()
      shell.write(place .. "/fetch.lua", [[
         torch.hub.set_dir(arg[2])
         torch.hub.load_state_dict_from_url(arg[1], {progress = false})
         print "fetched"]])
      write_tensors(folder .. "/w.safetensors", {w = torch.ones(30000)})
      local command = ("%s %s/fetch.lua %s/drip/20000/w.safetensors %s/cache"):format(shell.start(), place, base, place)
      assert.equal("fetched\nfetched\nfetched\n", shell.ok(("%s & %s & %s & wait"):format(command, command, command)))
      local n = 0
      for _, line in ipairs(log()) do if line:find "^GET" then n = n + 1 end end
      assert.equal(1, n)
   end))

   it("does not write through a link in place of the unfinished file", served(function(place)
      has_data()
      shell.write(place .. "/victim", "mine")
      shell.ok(("ln -s victim %s/x.part"):format(place))
      without_pauses(function()
         assert.matches("x.part: another process holds this file and makes no progress, or it is a link",
            failure(fetch, "/data", place .. "/x", {timeout = 0.01}))
      end)
      assert.equal("mine", shell.read(place .. "/victim"))
   end))

   it("refuses wrong arguments", served(function(place)
      local function wrong(expected, ...)
         assert.equal("hub.download_url_to_file: " .. expected, failure(hub.download_url_to_file, ...))
      end
      wrong('url: expected http:// or https://, got "ftp://host/x"', "ftp://host/x", place .. "/x")
      wrong('url: expected http:// or https://, got "file:///etc/passwd"', "file:///etc/passwd", place .. "/x")
      wrong("url: expected a URL without a user's name, got \"http://a:b@host/x\"", "http://a:b@host/x", "x")
      wrong('dst: expected a file\'s path, got "x/"', base .. "/data", "x/")
      wrong('hash_prefix: expected 6 to 64 hexadecimal digits, got "xyzxyz"', base, "x", "xyzxyz")
      wrong("timeout: expected a positive number of seconds, got -1", base, "x", {timeout = -1})
   end))
end)

describe("an https server", function()
   it("is reached through libcurl, and only with a trusted certificate", function()
      local python = shell.python "import ssl, http.server"
      if not python then return pending "needs Python" end
      if select(2, torch._connect_tls("https://127.0.0.1:1", 1)):find "libcurl, which was not found" then
         return pending "needs libcurl"
      end
      shell.with_folder(function(place)
         local fixtures = "rocks/hub/spec/fixtures"
         local pipe <close> = assert(io.popen(("exec %s %s/https.py %s %s/localhost.pem 2>/dev/null"):format(python,
            fixtures, place, fixtures)))
         local port, process = pipe:read "l":match "^(%d+) (%d+)"
         local text = noise(200000)
         shell.write(place .. "/data", text)
         shell.write(place .. "/fetch.lua", ([[
            print(pcall(torch.hub.download_url_to_file, "https://" .. arg[1] .. ":%s/data", %q))]]):format(port,
            place .. "/x"))
         local command = ("%s %s/fetch.lua "):format(shell.start(), place)
         local trusting = ("SSL_CERT_FILE=%s/localhost.pem "):format(fixtures) .. command
         local trusted, copied = shell.run(trusting .. "localhost"), shell.read(place .. "/x") == text
         local numbered, untrusted = shell.run(trusting .. "127.0.0.1"), shell.run(command .. "localhost")
         shell.run("kill " .. process)
         assert.matches("true\t" .. sum(text), trusted)
         assert.is_true(copied)
         assert.matches("true\t" .. sum(text), numbered)
         assert.matches("false\t.*hub.download_url_to_file: https://localhost:%d+: .*certificate", untrusted)
      end)
   end)
end)

describe("hub.load_state_dict_from_url", function()
   it("returns tensors, keeps the file, and needs no server afterwards", served(function(place)
      local weights = {["a.weight"] = torch.rand(3, 2), n = torch.tensor({1, 2}, {dtype = "int64"})}
      write_tensors(folder .. "/w.safetensors", weights)
      local url = base .. "/w.safetensors"
      local state = hub.load_state_dict_from_url(url)
      assert.is_true(state["a.weight"]:equal(weights["a.weight"]))
      assert.equal("int64", state.n.dtype)
      local requests = #log()
      hub.load_state_dict_from_url(url, {offline = true})
      assert.equal(requests, #log())
      local path = hub.get_dir() .. "/checkpoints/w.safetensors"
      assert.equal(sum(shell.read(path)) .. "  w.safetensors\n", shell.read(path .. ".sha256"))
      assert.equal("meta", hub.load_state_dict_from_url(url, {map_location = "meta"}).n.device.type)
      hub.load_state_dict_from_url(url, place .. "/mine", {file_name = "v.safetensors"})
      assert.is_true(exists(place .. "/mine/v.safetensors"))
   end))

   it("detects that a file in the cache has changed", served(function()
      write_tensors(folder .. "/w.safetensors", {w = torch.ones(3)})
      local url = base .. "/w.safetensors"
      hub.load_state_dict_from_url(url)
      local path = hub.get_dir() .. "/checkpoints/w.safetensors"
      local text = shell.read(path)
      shell.write(path, text:sub(1, -2) .. "\1")
      assert.matches("^hub.load_state_dict_from_url: " .. path:gsub("%p", "%%%0")
         .. ": SHA%-256: expected %x+, got %x+; the file is damaged: force_reload = true fetches it again$",
         failure(hub.load_state_dict_from_url, url))
      assert.same({1, 1, 1}, hub.load_state_dict_from_url(url, {force_reload = true}).w:tolist())
   end))

   it("takes the checksum from the URL or from the caller", served(function()
      write_tensors(folder .. "/w", {w = torch.ones(3)})
      local digits = sum(shell.read(folder .. "/w")):sub(1, 8)
      os.rename(folder .. "/w", ("%s/w-%s.safetensors"):format(folder, digits))
      hub.load_state_dict_from_url(("%s/w-%s.safetensors"):format(base, digits), {check_hash = true})
      write_tensors(folder .. "/w-00000000.safetensors", {w = torch.ones(3)})
      assert.matches("SHA%-256: expected 00000000, got ", failure(hub.load_state_dict_from_url,
         base .. "/w-00000000.safetensors", {check_hash = true}))
      assert.matches("check_hash: expected a URL whose file is named", failure(hub.load_state_dict_from_url,
         base .. "/w.safetensors", {check_hash = true}))
   end))

   it("refuses pickles, HTML pages and pointers of Git LFS", served(function()
      local function message(name, text)
         shell.write(folder .. "/" .. name, text)
         return failure(hub.load_state_dict_from_url, base .. "/" .. name)
      end
      for _, name in ipairs {"a.pth", "a.pt", "pytorch_model.bin", "a.PT"} do
         assert.matches("url: expected a safetensors file, got .*" .. name .. "\"; a pickle is not loaded",
            message(name, "x"))
      end
      assert.same({}, log())
      assert.matches("checkpoints/a.zip: expected a safetensors file, got a pickle of PyTorch's",
         message("a.zip", "PK\3\4" .. ("x"):rep(40)))
      assert.matches("got a pickle of PyTorch's", message("b.model", "\x80\2\x8a\x0a" .. ("x"):rep(40)))
      assert.matches("got a page of HTML or XML", message("c.safetensors", "<!doctype html><html>"))
      assert.matches("got a pointer of Git LFS", message("d.safetensors",
         "version https://git-lfs.github.com/spec/v1\n"))
      assert.matches("not a safetensors file", message("e.safetensors", "hello"))
      local path = hub.get_dir() .. "/checkpoints/e.safetensors"
      assert.is_true(exists(path))
   end))

   it("refuses names that would leave the folder, and fetches nothing offline", served(function()
      for _, name in ipairs {"..", "%2e%2e", "a%2fb", "", "%00", "con", "a:b"} do
         assert.matches("url: expected a URL that ends with a file's name, or file_name; got",
            failure(hub.load_state_dict_from_url, base .. "/" .. name))
      end
      assert.matches('file_name: expected a file\'s name without a folder, got "../x"',
         failure(hub.load_state_dict_from_url, base .. "/w", {file_name = "../x"}))
      assert.matches("w.safetensors is not in .*/cache/checkpoints, and nothing is fetched offline",
         failure(hub.load_state_dict_from_url, base .. "/w.safetensors", {offline = true}))
      assert.matches("weights_only: expected true: loading runs no code of a file, got false",
         failure(hub.load_state_dict_from_url, base .. "/w", {weights_only = false}))
      assert.equal(0, #log())
   end))
end)

-- Packed files --------------------------------------------------------------------------------------

local function small(fields)
   local model = {name = "small", weights = nn.Sequential(nn.Linear(4, 2), nn.Tanh()), license = "MIT",
      summary = "an example", card = "# small\nNo more.", config = {classes = {"a", "b"}},
      architecture = {"nn.Sequential", {"nn.Linear", 4, 2}, {"nn.Tanh"}}}
   for key, value in pairs(fields or {}) do model[key] = value end
   return model
end

-- Writes a packed file whose manifest is `text`.
local function forge(path, text, tensors)
   write_tensors(path, tensors or {weight = torch.ones(1, 1), bias = torch.ones(1)}, {["tlua.hub"] = text})
end

-- Returns a manifest with one model.
local function described(entry) return json.encode {format = "tlua-hub", version = 1, models = {m = entry}} end

describe("hub.pack", function()
   it("writes one file from which the model can be loaded", shell.in_folder(function(place)
      local model = small()
      local path = hub.pack(model, place .. "/s.safetensors")
      local x = torch.rand(5, 4)
      local net = hub.load(path)
      assert.is_true(net(x):equal(model.weights(x)))
      assert.is_false(net.training)
      assert.same({"small"}, hub.list(path))
      assert.equal('small: an example\narchitecture: ["nn.Sequential",["nn.Linear",4,2],["nn.Tanh"]]\n'
         .. 'config: {"classes":["a","b"]}\nlicense: MIT\n\n# small\nNo more.', hub.help(path))
      -- Another reader of safetensors files finds the weights under PyTorch's names.
      assert.is_true(torch.load(path)["0.weight"]:equal(model.weights[1].weight))
      assert.is_true(hub.load(path, {pretrained = false}).training)
   end))

   it("takes weights from a module, a file, and tables with our or PyTorch's names", shell.in_folder(function(place)
      local net = small().weights
      local x = torch.rand(5, 4)
      local path = place .. "/s.safetensors"
      torch.save(net:state_dict {names = "pytorch"}, place .. "/w.safetensors")
      for _, weights in ipairs {net, net:state_dict(), net:state_dict {names = "pytorch"}, place .. "/w.safetensors"} do
         hub.pack(small {weights = weights}, path)
         assert.is_true(hub.load(path)(x):equal(net(x)))
      end
   end))

   it("packs builders with options, which a caller of load may override", shell.in_folder(function(place)
      if not torch.has "vision" then return pending "needs the package vision" end
      local net = torch.vision.models.squeezenet1_1 {num_classes = 3}
      local path = hub.pack({name = "s", architecture = "vision.models.squeezenet1_1", options = {num_classes = 3},
         weights = net}, place .. "/s.safetensors")
      assert.equal(3, hub.load(path)(torch.zeros(1, 3, 32, 32)):size(2))
      assert.equal(5, hub.load(path, "s", {num_classes = 5, pretrained = false})(torch.zeros(1, 3, 32, 32)):size(2))
      assert.matches(': tensor "classifier.1.%w+": expected float32 of shape %(5', failure(hub.load, path,
         {num_classes = 5}))
      assert.matches("models.s.architecture: vision.models.squeezenet1_1: unknown option num_klasses; did you mean "
         .. "num_classes", failure(hub.load, path, {num_klasses = 5}))
      assert.matches("unknown option forse_reload.*of the hub, too; did you mean force_reload",
         failure(hub.load, path, {forse_reload = true}))
   end))

   it("refuses models that could not be loaded", shell.in_folder(function(place)
      local function wrong(expected, fields)
         assert.equal("hub.pack: " .. expected, failure(hub.pack, small(fields), place .. "/x.safetensors"))
         assert.is_false(exists(place .. "/x.safetensors"))
      end
      wrong('name: expected a name of letters, digits, _, . and -, got "../a"', {name = "../a"})
      wrong('unknown field "licens"; did you mean license?', {licens = "MIT"})
      wrong("model.summary: expected a text, got 3", {summary = 3})
      wrong('architecture[2]: there is no nn.Linaer', {architecture = {"nn.Sequential", {"nn.Linaer", 4, 2}}})
      wrong('weights: tensor "0.bias": expected float32 of shape (3), got float32 of shape (2)',
         {architecture = {"nn.Sequential", {"nn.Linear", 4, 3}}})
      wrong("architecture: expected data that JSON can represent: json.encode: a function",
         {architecture = {"nn.Sequential", print}})
      wrong('weights: expected a module, a table of tensors or the path of a safetensors file, got 3', {weights = 3})
      wrong('model.options: expected them in the list of the architecture', {options = {a = 1}})
      assert.matches("path: expected a name that ends with .safetensors", failure(hub.pack, small(), place .. "/x.bin"))
   end))
end)

describe("a packed file from a stranger", function()
   it("is refused if a bit of its weights has changed", shell.in_folder(function(place)
      local path = hub.pack(small(), place .. "/s.safetensors")
      local text = shell.read(path)
      shell.write(path, text:sub(1, -3) .. string.char(text:byte(-2) ~ 1) .. text:sub(-1))
      assert.matches('s.safetensors: tensor "0.%w+": SHA%-256: expected %x+, got %x+', failure(hub.load, path))
      hub.load(path, {check_hash = false})
   end))

   it("is refused, with the file's name and the field, if the manifest is wrong", shell.in_folder(function(place)
      local path = place .. "/f.safetensors"
      local function wrong(expected, text)
         forge(path, text)
         assert.equal(("hub.load: %s: metadata tlua.hub: %s"):format(path, expected), failure(hub.load, path))
      end
      local linear = {"nn.Linear", 1, 1}
      wrong("expected a JSON object", "[]")
      wrong('format: expected "tlua-hub", got nil', "{}")
      wrong("version: expected 1, got 2", '{"format": "tlua-hub", "version": 2}')
      wrong("models: expected an object, got nil", '{"format": "tlua-hub", "version": 1}')
      wrong("models: expected at least one", '{"format": "tlua-hub", "version": 1, "models": {}}')
      wrong('models: "../m": expected a name of letters, digits, _, . and -',
         '{"format": "tlua-hub", "version": 1, "models": {"../m": {}}}')
      wrong("models.m: expected an object, got 3", described(3))
      wrong('models.m.architecture is missing; expected a name such as "nn.Sequential" or "vision.models.resnet18", or '
         .. "a list of a name and its arguments", described {license = "MIT"})
      wrong('models.m: unknown field "weights"; a packed file contains its weights',
         described {architecture = linear, weights = "x.safetensors"})
      wrong("models.m.license: expected a text, got 3", described {architecture = linear, license = 3})
      wrong('models.m.checksums: expected SHA-256 checksums by the tensors\' names, got a table',
         described {architecture = linear, checksums = {weight = "0"}})
      shell.write(path, "")
      assert.matches("f.safetensors: not a safetensors file", failure(hub.load, path))
      write_tensors(path, {w = torch.ones(1)})
      assert.matches("expected a file that `tlua hub pack` has made; this one has weights only",
         failure(hub.load, path))
   end))

   it("becomes modules of our classes only, from plain data", shell.in_folder(function(place)
      local path = place .. "/f.safetensors"
      local function wrong(expected, architecture, options)
         forge(path, described {architecture = architecture, options = options})
         assert.equal(("hub.load: %s: models.m.architecture%s"):format(path, expected), failure(hub.load, path))
      end
      local groups = "audio.models., graphs.nn., nn., text., vision.models."
      local function stranger(name)
         wrong((": expected a name that begins with one of %s; got %q"):format(groups, name), name)
      end
      stranger "os.execute"
      stranger "io.popen"
      stranger "torch.load"
      stranger "print"
      stranger "hub.load"
      wrong(": there is no nn.load_state_dict", "nn.load_state_dict")
      wrong(": there is no nn.__index", "nn.__index")
      wrong(": there is no nn.init", "nn.init")
      wrong(": there is no text.from_pretrained", "text.from_pretrained")
      wrong("[2][2]: there is no nn.Nothing", {"nn.Sequential", {"nn.Sequential", {"nn.Nothing"}}})
      wrong(": nn.Linear: out_features is missing; expected an integer of at least 0", {"nn.Linear", 1})
      if not torch.has "vision" or not torch.has "audio" then return end
      wrong(": there is no vision.models.get_model", "vision.models.get_model")
      wrong(": there is no audio.models.whisper_features", "audio.models.whisper_features")
      wrong(": option weights: a model from data reads no other file", "vision.models.resnet18",
         {weights = "/etc/passwd"})
   end))

   it("is refused before memory is allocated if shapes differ", shell.in_folder(function(place)
      local path = place .. "/f.safetensors"
      forge(path, described {architecture = {"nn.Linear", 1000000, 1000000}})
      assert.equal(("hub.load: %s: tensor \"bias\": expected float32 of shape (1000000), got float32 of shape (1)")
         :format(path), failure(hub.load, path))
      forge(path, described {architecture = {"nn.Linear", 1, 1}}, {weight = torch.ones(1, 1), other = torch.ones(1)})
      assert.matches(': tensor "bias" is missing$', failure(hub.load, path))
      forge(path, described {architecture = {"nn.Linear", 1, 1, {bias = false}}})
      assert.matches(': tensor "bias" is not part of the model$', failure(hub.load, path))
      local deep = {"nn.Linear", 1, 1}
      for _ = 1, 55 do deep = {"nn.Sequential", deep} end
      forge(path, described {architecture = deep})
      assert.matches("nested too deeply$", failure(hub.load, path))
   end))
end)

-- Repositories --------------------------------------------------------------------------------------

-- Writes a repository with a hub.json into a folder.
local function write_hub(path, more)
   shell.ok("mkdir -p " .. path)
   local net = nn.Linear(2, 1)
   write_tensors(path .. "/line.safetensors", {weight = net.weight, bias = net.bias})
   shell.write(path .. "/README.md", "# line")
   local models = {line = {architecture = {"nn.Linear", 2, 1}, weights = "line.safetensors", license = "MIT",
      sha256 = sum(shell.read(path .. "/line.safetensors"))}}
   for name, entry in pairs(more or {}) do models[name] = entry end
   shell.write(path .. "/hub.json", json.encode {format = "tlua-hub", version = 1, models = models})
   return net
end

local function write_gpt(path, options)
   local net = torch.text.from_config {model_type = "gpt2", n_embd = 8, n_head = 2, n_layer = 1, vocab_size = 20}
   net:save_pretrained(path, options)
   return net:eval()
end

describe("hub.load", function()
   local x = torch.rand(3, 2)

   it("reads a folder with hub.json", shell.in_folder(function(place)
      local net = write_hub(place .. "/repo")
      assert.is_true(hub.load(place .. "/repo/", "line")(x):equal(net(x)))
      assert.is_true(hub.load(place .. "/repo", {source = "local"})(x):equal(net(x)))
      assert.equal('line: \narchitecture: ["nn.Linear",2,1]\nlicense: MIT\n\n# line', hub.help(place .. "/repo"))
      shell.ok(("printf x >> %s/repo/line.safetensors"):format(place))
      assert.matches("repo/line.safetensors: SHA%-256: expected %x+, got %x+", failure(hub.load, place .. "/repo"))
   end))

   it("reads no file outside of the folder", shell.in_folder(function(place)
      for _, name in ipairs {"../x.safetensors", "/etc/x.safetensors", "a/../../x.safetensors", "a\\x.safetensors",
         "./x.safetensors", "a//x.safetensors", "C:x.safetensors", "con.safetensors"} do
         write_hub(place .. "/repo", {line = {architecture = {"nn.Linear", 2, 1}, weights = name}})
         assert.equal(("hub.load: %s/repo/hub.json: models.line.weights: expected a file's name inside of the "
            .. "repository, or an https URL, got %q"):format(place, name), failure(hub.load, place .. "/repo"))
      end
      write_hub(place .. "/repo", {line = {architecture = {"nn.Linear", 2, 1}, weights = "x.bin"}})
      assert.matches('models.line.weights: expected a safetensors file, got "x.bin"',
         failure(hub.load, place .. "/repo"))
      write_hub(place .. "/repo", {line = {architecture = {"nn.Linear", 2, 1}, weights = "https://host/x"}})
      assert.matches("models.line.sha256 is missing; weights from a URL need it", failure(hub.load, place .. "/repo"))
   end))

   it("runs code only with trust, and only from a local folder", served(function(place)
      local repo = place .. "/repo"
      shell.ok("mkdir -p " .. repo)
      shell.write(repo .. "/hubconf.lua", ([[
         io.open(%q, "w"):close()
         return {help = {double = "twice"}, double = function(options) return 2 * options.n end,
            _hidden = function() end}]]):format(place .. "/ran"))
      assert.equal(("hub.load: %s/hubconf.lua is code, which runs only with trust = true, after you have read it")
         :format(repo), failure(hub.load, repo, "double", {n = 4}))
      assert.is_false(exists(place .. "/ran"))
      assert.equal(8, hub.load(repo, "double", {n = 4, trust = true}))
      assert.same({"double"}, hub.list(repo, {trust = true}))
      assert.equal("double: twice", hub.help(repo, "double", {trust = true}))
      os.remove(place .. "/ran")
      shell.ok(("mkdir -p %s/o && cp -r %s %s/o/repo"):format(folder, repo, folder))
      assert.equal("hub.load: o/repo: there is neither hub.json nor config.json; code of repositories, such as "
         .. "hubconf.py, is not run", failure(hub.load, "o/repo", "double", {trust = true, endpoint = base}))
      assert.is_false(exists(place .. "/ran"))
   end))

   it("passes arguments, pretrained and the device to functions of hubconf.lua", served(function(place)
      for i, name in ipairs {"one", "two"} do
         shell.ok(("mkdir -p %s/%s"):format(place, name))
         shell.write(("%s/%s/sizes.lua"):format(place, name), "return {n = " .. i .. "}")
         shell.write(("%s/%s/hubconf.lua"):format(place, name), [[
            local torch = require "tlua"
            local n = require "sizes".n
            return {
               values = function(...) return {...} end, nothing = function() end,
               layer = function(options)
                  return torch.nn.Linear(require "sizes".n, n, {bias = options.pretrained})
               end}]])
      end
      local path = package.path
      local one, two, given = place .. "/one", place .. "/two", {trust = true}
      assert.same({3, "x", {size = 4}}, hub.load(one, "values", 3, "x", {trust = true, size = 4}))
      assert.same({3, nil, {pretrained = false}}, hub.load(one, "values", 3, nil, {trust = true, pretrained = false}))
      assert.equal(1, hub.load(one, "layer", given).in_features)
      local layer = hub.load(two, "layer", {trust = true, pretrained = false, device = "meta"})
      assert.same({2, 2}, {layer.in_features, layer.out_features})
      assert.is_nil(layer.bias)
      assert.equal("meta", tostring(layer.weight.device))
      assert.equal(path, package.path)
      assert.is_nil(package.loaded.sizes)
      assert.equal(("hub.load: %s/hubconf.lua: nothing returns no model"):format(one),
         failure(hub.load, one, "nothing", given))
      write_hub(place .. "/data")
      assert.equal("hub.load: expected at most 3 arguments, got 4; a model's arguments are options",
         failure(hub.load, place .. "/data", "line", 3, given))
      assert.equal("hub.load: options: expected a table, got 3", failure(hub.load, one, "values", 3))
   end))

   it("fetches a repository once, by commit, and serves it offline", served(function()
      local net = write_hub(folder .. "/owner/line")
      local given = {endpoint = base}
      assert.is_true(hub.load("owner/line", "line", given)(x):equal(net(x)))
      local snapshot = ("%s/models--owner--line/snapshots/%s"):format(hub.get_dir(), COMMIT)
      assert.is_true(exists(snapshot .. "/line.safetensors.sha256"))
      assert.equal(COMMIT, shell.read(hub.get_dir() .. "/models--owner--line/refs/main"))
      local n = #log()
      assert.is_true(hub.load("owner/line", "line", {offline = true})(x):equal(net(x)))
      assert.is_true(hub.load("owner/line:" .. COMMIT, given)(x):equal(net(x)))
      assert.equal(n, #log())
      net = write_hub(folder .. "/owner/line")
      assert.is_false(hub.load("owner/line", given)(x):equal(net(x)))
      assert.is_true(hub.load("owner/line", {endpoint = base, force_reload = true})(x):equal(net(x)))
      shell.write(snapshot .. "/line.safetensors", "damaged")
      assert.matches("line.safetensors: SHA%-256: .*the file is damaged", failure(hub.load, "owner/line", given))
      assert.matches("owner/other: hub.json is not in .*, and nothing is fetched offline",
         failure(hub.load, "owner/other", {offline = true}))
   end))

   it("reports missing repositories and revisions, and sends a token to one server only", served(function()
      local given = {endpoint = base}
      assert.matches("hub.load: none/none: there is neither hub.json nor config.json",
         failure(hub.load, "none/none", given))
      assert.matches("the server answers 404 %(RevisionNotFound%)", failure(hub.load, "none/none:old", given))
      write_hub(folder .. "/private/line")
      os.rename(folder .. "/private/line/line.safetensors", folder .. "/private/line/lfs.safetensors")
      shell.write(folder .. "/private/line/hub.json", (shell.read(folder .. "/private/line/hub.json")
         :gsub("line%.safetensors", "lfs.safetensors")))
      assert.matches("answers 401 %(GatedRepo%); a private or gated repository needs a token: the option token, or "
         .. "HF_TOKEN", failure(hub.load, "private/line", given))
      hub.load("private/line", {endpoint = base, token = "secret"})
      local first, second
      for _, line in ipairs(log()) do
         if line:find "^GET /private/line/resolve/%d+/lfs" then first = line end
         if line:find "^GET /private/line/lfs" then second = line end
      end
      assert.matches("Bearer secret$", first)
      assert.matches("%- %-$", second) -- the first server redirects to a second one, which must not get the token
   end))

   it("checks a file of Git LFS against the checksum in its header", served(function()
      shell.ok("mkdir -p " .. folder .. "/o/r")
      write_tensors(folder .. "/o/r/lfs_bad.safetensors", {weight = torch.ones(1, 2), bias = torch.ones(1)})
      shell.write(folder .. "/o/r/hub.json", json.encode {format = "tlua-hub", version = 1, models = {line = {
         architecture = {"nn.Linear", 2, 1}, weights = "lfs_bad.safetensors"}}})
      assert.matches("lfs_bad.safetensors: SHA%-256: expected " .. sum "" .. ", got ",
         failure(hub.load, "o/r", {endpoint = base}))
   end))

   it("reads GitHub's layout", served(function()
      local net = write_hub(folder .. "/owner/line/HEAD")
      assert.is_true(hub.load("owner/line", {source = "github", endpoint = base})(x):equal(net(x)))
      assert.is_true(exists(hub.get_dir() .. "/github--owner--line/snapshots/HEAD/hub.json"))
   end))

   it("reads Hugging Face's layout: one file, shards, and its library's cache", served(function(place)
      if not torch.has "text" then return pending "needs the package text" end
      local ids = torch.tensor {{1, 5, 3}}
      local one, many = write_gpt(folder .. "/o/one"), write_gpt(folder .. "/o/many", {max_shard_size = 1500})
      local given = {endpoint = base}
      assert.is_true(hub.load("o/one", given)(ids).logits:equal(one(ids).logits))
      assert.same({"GPT2LMHeadModel"}, hub.list("o/one", given))
      assert.equal("text.GPT2Model", torch.type(hub.load("o/one", "GPT2Model", given)))
      assert.is_true(hub.load("o/many", given)(ids).logits:equal(many(ids).logits))
      assert.matches("hub.load: .*unknown option colour", failure(hub.load, "o/one", {endpoint = base, colour = 1}))
      assert.matches("/o%-%-many/snapshots/", hub.download("o/many", given):gsub("models%-%-", ""))
      -- In the cache of Hugging Face's library, the files are symbolic links to blobs.
      local cache = place .. "/hf/models--o--cached"
      shell.ok(("mkdir -p %s/refs %s/blobs %s/snapshots/%s"):format(cache, cache, cache, COMMIT))
      shell.write(cache .. "/refs/main", COMMIT)
      for _, name in ipairs {"config.json", "model.safetensors"} do
         shell.ok(("cp %s/o/one/%s %s/blobs/%s && ln -s ../../blobs/%s %s/snapshots/%s/%s"):format(folder, name,
            cache, name, name, cache, COMMIT, name))
      end
      shell.write(place .. "/cached.lua", [[print(torch.type(torch.hub.load("o/cached", {offline = true})))]])
      assert.equal("text.GPT2LMHeadModel\n", shell.ok(("HF_HUB_CACHE=%s/hf %s %s/cached.lua"):format(place,
         shell.start(), place)))
   end))

   it("refuses an index with paths outside of the repository, and pickles", served(function()
      if not torch.has "text" then return pending "needs the package text" end
      write_gpt(folder .. "/o/bad")
      os.rename(folder .. "/o/bad/model.safetensors", folder .. "/o/bad/pytorch_model.bin")
      assert.matches("o/bad: there is neither model.safetensors nor model.safetensors.index.json; pytorch_model.bin is "
         .. "a pickle and is not loaded", failure(hub.load, "o/bad", {endpoint = base}))
      shell.write(folder .. "/o/bad/model.safetensors.index.json", '{"weight_map": {"a": "../../x.safetensors"}}')
      assert.matches('model.safetensors.index.json: weight_map: expected names of files inside of the repository, got '
         .. '"../../x.safetensors"', failure(hub.load, "o/bad", {endpoint = base, force_reload = true}))
      for _, line in ipairs(log()) do assert.is_nil(line:find("x.safetensors", 1, true)) end
   end))

   it("loads a packed file by its URL", served(function()
      hub.pack(small(), folder .. "/s.safetensors")
      assert.equal("nn.Sequential", torch.type(hub.load(base .. "/s.safetensors")))
      assert.matches("SHA%-256: expected 000000, got", failure(hub.load, base .. "/s.safetensors", {sha256 = "000000"}))
   end))

   it("refuses wrong arguments", function()
      local function wrong(expected, ...) assert.equal("hub.load: " .. expected, failure(hub.load, ...)) end
      local repo = 'repo_or_dir: expected "owner/name", "owner/name:revision", a folder, a file or a URL, got '
      for _, name in ipairs {"a/..", "../a", "a/b/c", "a", "", "a b/c", "a/b:../c", "a/b:", "-a/b", "a/.b", "a--b/c",
         ("a"):rep(97) .. "/b"} do
         local message = failure(hub.load, name)
         assert.is_true(message == "hub.load: " .. repo .. ("%q"):format(name)
            or message == ("hub.load: %s: there is no such folder or file"):format(name) or name == "", message)
      end
      wrong('repo_or_dir: expected "owner/name", a folder, a file or a URL, got 3', 3)
      wrong("model: expected a model's name, got 3", "a/b", 3)
      wrong('source: expected "huggingface", "github" or "local", got "gitlab"', "a/b", {source = "gitlab"})
      wrong('revision: expected a branch, a tag or a commit, got "../x"', "a/b", {revision = "../x"})
      wrong("trust: expected a boolean, got \"yes\"", "a/b", {trust = "yes"})
      wrong('endpoint: expected http:// or https://, got "x"', "a/b", {endpoint = "x"})
      wrong("expected at most 3 arguments, got 4; a model's arguments are options", "a/b", "m", {}, 1)
      wrong("/nowhere: there is no such folder or file", "/nowhere")
   end)
end)

describe("tlua hub", function()
   local function run(command) return shell.run(("%s hub %s"):format(shell.start(), command)) end

   it("packs, lists, explains, fetches and verifies", served(function(place)
      shell.write(place .. "/model.lua", [[
         local net = torch.nn.Linear(2, 1)
         return {name = "line", architecture = {"nn.Linear", 2, 1}, weights = net, licence = "MIT"}]])
      local path = folder .. "/line.safetensors"
      local output, status = run(("pack %s/model.lua %s"):format(place, path))
      assert.equal(("%s  %s\n"):format(sum(shell.read(path)), path), output)
      assert.equal(0, status)
      assert.equal("line\n", (run("list " .. path)))
      assert.equal('line: \narchitecture: ["nn.Linear",2,1]\nlicense: MIT\n', (run("help " .. path)))
      local cache = "TLUA_CACHE=" .. place .. "/c "
      local function kept(command) return shell.run(("%s %s hub %s"):format(cache, shell.start(), command)) end
      local file = place .. "/c/hub/checkpoints/line.safetensors"
      assert.equal(file .. "\n", (kept("download " .. base .. "/line.safetensors")))
      assert.equal("1 files, 0 damaged\n", (kept "verify"))
      assert.matches("^ +%d+  line.safetensors\n" .. place:gsub("%p", "%%%0") .. "/c/hub\n$", (kept "list"))
      shell.write(file, "?")
      output, status = kept "verify"
      assert.matches("line.safetensors: SHA%-256: expected %x+, got %x+\n1 files, 1 damaged\n", output)
      assert.equal(1, status)
   end))

   it("refuses unknown actions, options and arguments", function()
      local function wrong(expected, command)
         local output, status = run(command)
         assert.equal(expected, output:match "^[^\n]*")
         assert.equal(1, status)
      end
      wrong("tlua hub: expected pack, list, help, download or verify", "")
      wrong("tlua hub: there is no action lst; did you mean list?", "lst")
      wrong("tlua hub: unknown option --ofline; did you mean --offline?", "list --ofline")
      wrong("tlua hub: /nowhere.lua: No such file or directory", "pack /nowhere.lua")
      wrong("tlua hub: unexpected argument 'x'", "verify x")
      wrong("tlua hub: hub.list: /nowhere: there is no such folder or file", "list /nowhere")
      assert.matches("^usage: tlua hub pack", (run "--help"))
   end)
end)

it("the example shares its model", function()
   local output = shell.ok(shell.start() .. " rocks/hub/examples/share.lua")
   assert.matches("^circle: tells whether a point lies in a circle\n", output)
   assert.is_true(tonumber(output:match "right for (%d+) %%") > 95)
end)
