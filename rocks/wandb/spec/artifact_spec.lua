-- Tests artifacts of runs that are recorded offline.

local torch = require "tlua"
local shell = require "spec.support.shell"
local json = require "tlua.utils.json"
local md5 = require "tlua.wandb.md5"
local wandb = torch.utils.wandb

local function hex(bytes)
   return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

local function write(path, text)
   local file <close> = assert(io.open(path, "wb"))
   file:write(text)
end

-- Creates files in a folder and returns the folder.
local function files_in(folder)
   assert(torch.io.make_folder(folder .. "/files/sub"))
   write(folder .. "/files/a.txt", "hello\n")
   local bytes = {}
   for i = 0, 255 do bytes[i + 1] = string.char(i) end
   write(folder .. "/files/sub/b.bin", table.concat(bytes))
   return folder .. "/files"
end

local function begin(folder, options)
   options = options or {}
   options.dir, options.interval, options.id = folder, 0, options.id or "art"
   return wandb.init(options)
end

describe("md5", function()
   it("gives the sums of RFC 1321's test suite, of texts and of files", shell.in_folder(function(folder)
      for text, sum in pairs {
         [""] = "d41d8cd98f00b204e9800998ecf8427e", a = "0cc175b9c0f1b6a831c399e269772661",
         abc = "900150983cd24fb0d6963f7d28e17f72", ["message digest"] = "f96b697d7cb7938d525a2f31aaf161d0",
         abcdefghijklmnopqrstuvwxyz = "c3fcd3d76192e4007dfb496cca67e13b",
         ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 = "d174ab98d277d9f5a5611c2c9f419d9f",
         [("1234567890"):rep(8)] = "57edf4a22be3c955ac49da2e2107b67a",
      } do
         assert.equal(sum, hex(md5.of_text(text)))
         write(folder .. "/file", text)
         assert.equal(sum, hex(md5.of_file(folder .. "/file")))
      end
      -- This file is longer than the pieces that md5.of_file reads.
      write(folder .. "/file", ("x"):rep(200001))
      assert.equal(shell.ok("md5sum " .. folder .. "/file"):match "%x+", hex(md5.of_file(folder .. "/file")))
      assert.same({nil, folder .. "/none: No such file or directory"}, {md5.of_file(folder .. "/none")})
   end))
end)

describe("an artifact", function()
   -- The expected digests were computed with wandb 0.31:
   --    a = wandb.Artifact("digits", "model"); a.add_dir(folder); a.digest, a.manifest.entries
   it("has the digests of W&B's library", shell.in_folder(function(folder)
      local artifact = wandb.Artifact("digits", "model")
      artifact:add_dir(files_in(folder))
      assert.equal("98de1e65ce0639ff7613293ec3934be6", artifact:digest())
      local entries = artifact.entries
      assert.same({"a.txt", "sZRqySSS0jR8YjW00mERhA==", 6},
         {entries[1].path, entries[1].digest, entries[1].size})
      assert.same({"sub/b.bin", "4shl20Fivtljv6qe9qwY8A==", 256},
         {entries[2].path, entries[2].digest, entries[2].size})
      artifact:add_file(folder .. "/files/a.txt", {name = "sub/c.txt"})
      artifact:add_file(folder .. "/files/a.txt") -- adding the same file again changes nothing
      assert.equal(3, #entries)
      assert.equal("sub/c.txt", entries[3].path)
   end))

   it("is recorded with copies of its files, and W&B's library reads it", shell.in_folder(function(folder)
      local python = shell.python "import wandb"
      if not python then pending "needs Python's wandb" end
      local run = begin(folder, {project = "p", entity = "team"})
      local artifact = wandb.Artifact("digits", "model", {description = "two files", metadata = {lr = 0.5}})
      artifact:add_dir(files_in(folder), {name = "data"})
      assert.equal(artifact, run:log_artifact(artifact, {aliases = {"latest", "best"}}))
      run:log_artifact(folder .. "/files/a.txt", {name = "text", type = "dataset"})
      run:log_artifact(folder .. "/files/")
      run:finish()
      local found = {}
      for line in shell.ok(("%s rocks/wandb/spec/fixtures/check.py %s"):format(python, run.path)):gmatch "[^\n]+" do
         local record = json.decode(line)
         if record.artifact then found[#found + 1] = record.artifact end
      end
      assert.equal(3, #found)
      local first = found[1]
      assert.same({"digits", "model", "two files", '{"lr":0.5}', "art", "p", "team", artifact:digest()}, {first.name,
         first.type, first.description, first.metadata, first.run_id, first.project, first.entity, first.digest})
      assert.same({"latest", "best"}, {table.unpack(first.aliases)})
      assert.is_true(first.user_created and first.finalize)
      assert.not_equal(first.client_id, found[2].client_id)
      assert.equal(128, #first.client_id)
      assert.same({1, "wandb-storage-policy-v1", "storageLayout", '"V2"'}, {first.manifest.version,
         first.manifest.storage_policy, first.manifest.storage_policy_config[1].key,
         first.manifest.storage_policy_config[1].value_json})
      local entry = first.manifest.contents[2]
      assert.same({"data/sub/b.bin", "4shl20Fivtljv6qe9qwY8A==", "256"}, {entry.path, entry.digest, entry.size})
      assert.equal(shell.read(folder .. "/files/sub/b.bin"), shell.read(entry.local_path))
      assert.matches("^/.*/artifacts/", entry.local_path)
      assert.same({"text", "dataset"}, {found[2].name, found[2].type})
      assert.same({"run-art-files", "unspecified"}, {found[3].name, found[3].type})
      assert.matches("run%-art.wandb", shell.ok(("%s -m wandb sync --dry-run %s"):format(python, run.folder)))
   end))

   it("stops the recording if a file has changed or is gone, and not the training", shell.in_folder(function(folder)
      local run = begin(folder)
      local artifact = wandb.Artifact("digits", "model")
      artifact:add_dir(files_in(folder))
      write(folder .. "/files/a.txt", "other\n")
      run:log_artifact(artifact)
      assert.is_true(run.failed)
      run:log {loss = 1}
      run:finish()
   end))

   it("is refused with wrong names, places and files", shell.in_folder(function(folder)
      local run, files = begin(folder), files_in(folder)
      local artifact = wandb.Artifact("digits", "model")
      local function refuses(text, fn, ...)
         local given = table.pack(...)
         assert.raises(text, function() fn(table.unpack(given, 1, given.n)) end)
      end
      refuses('name: expected at most 128 letters, digits, "-", "_" and ".", got "a b"', wandb.Artifact, "a b", "m")
      refuses("type: expected a name in UTF-8", wandb.Artifact, "a", "")
      refuses("metadata: expected values that JSON has", wandb.Artifact, "a", "m", {metadata = {f = print}})
      refuses("unknown option metdata; did you mean metadata?", wandb.Artifact, "a", "m", {metdata = {}})
      refuses("add_file: local_path: expected a file; add_dir adds a folder", artifact.add_file, artifact, files)
      refuses("add_dir: local_path: expected a folder", artifact.add_dir, artifact, files .. "/a.txt")
      refuses("No such file or directory", artifact.add_file, artifact, files .. "/none")
      for _, name in ipairs {"/etc/x", "../x", "a/../x", ".."} do
         refuses("name: expected a relative path", artifact.add_file, artifact, files .. "/a.txt", {name = name})
      end
      artifact:add_file(files .. "/a.txt", {name = "x"})
      refuses("x is in the artifact already, with other contents", artifact.add_file, artifact, files .. "/sub/b.bin",
         {name = "x"})
      artifact:add_file(files .. "/a.txt", {name = "sub/b.bin"})
      refuses("sub/b.bin is in the artifact already, with other contents", artifact.add_dir, artifact, files)
      assert.equal(2, #artifact.entries) -- a folder that cannot be added leaves the artifact as it was
      refuses("aliases[1]: expected a name", run.log_artifact, run, artifact, {aliases = {"a:b"}})
      run:log_artifact(artifact)
      refuses("the artifact was logged already", run.log_artifact, run, artifact)
      refuses("the artifact was logged already", artifact.add_file, artifact, files .. "/a.txt")
      refuses("expected a wandb.Artifact, or the path of a file or a folder, got 3", run.log_artifact, run, 3)
      refuses("expected a path with them", run.log_artifact, run, wandb.Artifact("b", "m"), {name = "c"})
      refuses("an offline run cannot fetch an artifact", run.use_artifact, run, "digits:latest")
      run:finish()
      refuses("the run has ended", run.log_artifact, run, files)
   end))
end)
