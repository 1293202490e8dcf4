# nix-build -E '(import <nixpkgs> {}).callPackage ./packaging {}'
{ lib, stdenv, cmake, pkg-config, libmicrohttpd, protobufc, zlib }:

stdenv.mkDerivation {
  pname = "tslab";
  version = "0.1.0";
  src = lib.cleanSource ../.;
  nativeBuildInputs = [ cmake pkg-config protobufc ];
  buildInputs = [ libmicrohttpd protobufc zlib ];
  cmakeFlags = [
    "-DTSLAB_BUILD_TESTS=OFF"
    "-DTSLAB_BUILD_WORKLOADS=OFF"
    "-DTSLAB_BUILD_BENCHMARKS=OFF"
  ];
  meta = {
    description = "A memory allocator that knows lifetimes";
    license = lib.licenses.mit;
    platforms = lib.platforms.linux;
  };
}
