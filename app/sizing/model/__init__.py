"""What a model is: any configuration becomes the list of its tensors, and everything counted is a sum over that list.

A tensor has a role, a part, a shape, layers, copies, and how many of them are multiplied and for what: each token, each
position an encoder reads, each image token. Parameters by part, active parameters, FLOPs, bytes of every format with
its scales, and adapters are sums over the list; cache and state follow from attention groups and recurrent mixers.
These are exact: held against the registered totals of the catalogue and against architectures instantiated by the
transformers library.

A size alone gets the proportions of the catalogue's dense decoders, layers and hidden size as powers of the parameter
count, 8 key/value heads, the MLP what is left; the answer says how far that rule is off over those models. A model that
works on samples has a law of its work by size, F(S) = fixed + a S + b S^2 over S positions (patches, frames, latent
cells), times denoising steps and guidance, plus what runs once (text encoders, image decoder, speech encoder).
"""
